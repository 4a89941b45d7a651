"""A worker: it answers each word in capitals."""

import bullpen


@bullpen.task
def shout(word: bytes) -> bytes:
    return word.upper()


bullpen.run()
