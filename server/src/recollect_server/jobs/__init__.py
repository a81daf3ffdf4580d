"""Floor 5: the threads that nobody calls. They call `services`, and `app` starts and stops them. `loop` is how each runs."""
