"""What a fit asks, answered by hand."""


def came_to(steps, answer):
    """What the generator returns when each of its asks is answered by `answer(ask)`."""
    try:
        ask = next(steps)
        while True:
            ask = steps.send(answer(ask))
    except StopIteration as done:
        return done.value
