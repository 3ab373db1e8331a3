"""What does a user read when the input is at fault? One sentence, never a traceback."""


class Refusal(ValueError):
    """Input that RouteLab will not take: one sentence that names the thing and the way out.

    Raise it from any room for anything a user can mend (missing file, corrupt checkpoint, unknown
    layer, a store of another version). The command line prints it alone and exits with code 2;
    every other exception is a bug and keeps its traceback.
    """
