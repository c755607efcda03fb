"""Notebook kernels end before JupyterLab itself when the session's memory is used up."""

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager


class ProgramKernels(KernelSpecManager):
    """All kernels, those that people install too, started by berth-program."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        spec = super().get_kernel_spec(kernel_name)
        spec.argv = ["/usr/local/bin/berth-program", *spec.argv]
        return spec


c.ServerApp.kernel_spec_manager_class = ProgramKernels  # noqa: F821
