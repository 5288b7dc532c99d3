"""What a gate found, for a program (`document`), for CI (`junit`) and for a reviewer (`page`)."""
