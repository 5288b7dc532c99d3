"""`bestbefore gate`: the promises, played out on a user's own setup, with evidence.

`scenario` says what a scenario is, `scenarios` has them all, `stage` is what one of them acts on,
`grounds` are the user's bucket and database, `children` the processes that get killed, and `run`
plays them one after the other. Everything happens in scratch places, which `scratch` makes and
removes; real prefixes, tables and queues are neither read nor written.
"""
