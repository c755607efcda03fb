# Runs the control daemon of CUDA MPS for the only GPU of this container; the limits of each client are
# $1 MiB of memory and $2 percent of the multiprocessors. Without the daemon the GPU takes one program
# only, so that none runs without limits.
set -eu
control() { echo "$1" | nvidia-cuda-mps-control; }
end() {
    trap - TERM INT
    control quit || true
    nvidia-smi --compute-mode=DEFAULT >/dev/null  # else it ends with an error, and Berth tries itself
    exit 0
}
trap end TERM INT
# What sessions left there could lead a privileged daemon elsewhere.
rm -rf "$CUDA_MPS_PIPE_DIRECTORY"/* "$CUDA_MPS_PIPE_DIRECTORY"/.[!.]*
chmod 1777 /dev/shm "$CUDA_MPS_PIPE_DIRECTORY"  # sessions are other users
nvidia-smi --compute-mode=EXCLUSIVE_PROCESS >/dev/null
nvidia-cuda-mps-control -f &
daemon=$!
until control get_default_active_thread_percentage >/dev/null 2>&1; do
    kill -0 "$daemon"
    sleep 0.1
done
control "set_default_device_pinned_mem_limit 0 ${1}M"
control "set_default_active_thread_percentage $2"
echo ready
wait "$daemon"
