"""`bestbefore demo`: a real store, real workers, real failures, and every number checked.

`sample` is what lies in the store, `worker` the worker that is made to fail, `story` what happens.
"""
