"""Before anything is imported: Triton's kernels are interpreted where there is no GPU to compile them for."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, which PyG does
