"""What MegaBlocks uses of ``stk.backend``."""
