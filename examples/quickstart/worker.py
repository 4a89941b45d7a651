import os
import time

import bullpen


@bullpen.task
def shout(word: bytes) -> bytes:
    if not word:
        raise bullpen.Failed("nothing to shout", retry=False)
    if word == b"sleep":
        time.sleep(60)  # ends at the deadline, by an exception
    if word == b"crash":
        os.abort()  # ends this worker, and no other task
    print("this is a log line, tagged with the task")
    return word.upper()


bullpen.run()
