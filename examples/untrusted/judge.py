import decimal

import bullpen


@bullpen.task
def judge(code: bytes) -> bytes:
    return str(eval(code, {"decimal": decimal})).encode()


bullpen.run()
