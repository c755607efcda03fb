/* A stand-in for NVIDIA's library, as much of its C interface as Berth asks for. What its devices do stands in a file that
 * is read on every call, one line for each: "<index> <used MiB> <percent> <what it refuses>", where 1 is its rates (as devices
 * that are split do), 2 everything (as one that fell off its bus). $FAKE_NVML_GPUS devices; $FAKE_NVML_OPENED counts, by its size
 * in bytes, how often the library was opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };
enum { REFUSES_RATES = 1, REFUSES_EVERYTHING = 2 };

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Rates;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;
typedef struct { unsigned long long used_mib; unsigned percent, refuses; } State;

static const unsigned long long TOTAL_MIB = 81559;

static long index_of(void *device) { return (long)device - 1; }

static int count_of_devices(void) {
    const char *told = getenv("FAKE_NVML_GPUS");
    return told ? atoi(told) : 8;
}

static State state_of(void *device) {
    State state = {512, 0, 0};
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    long index;
    State told;
    if (!file) return state;
    while (fscanf(file, "%ld %llu %u %u", &index, &told.used_mib, &told.percent, &told.refuses) == 4)
        if (index == index_of(device)) state = told;
    fclose(file);
    return state;
}

static Result refusal_of(void *device) { return state_of(device).refuses == REFUSES_EVERYTHING ? GPU_IS_LOST : OK; }

static Result put(char *buffer, unsigned length, const char *text) {
    if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return OK;
}

Result nvmlInitWithFlags(unsigned flags) {
    const char *path = getenv("FAKE_NVML_OPENED");
    FILE *file = path ? fopen(path, "a") : NULL;
    (void)flags;
    if (file) {
        fputc('.', file);
        fclose(file);
    }
    return OK;
}

Result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

Result nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(Result result) {
    switch (result) {
    case OK: return "Success";
    case NOT_SUPPORTED: return "Not Supported";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Invalid Argument";
    }
}

Result nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)count_of_devices();
    return OK;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if ((int)index >= count_of_devices()) return INVALID_ARGUMENT;
    *device = (void *)((long)index + 1);
    return OK;
}

Result nvmlDeviceGetName(void *device, char *buffer, unsigned length) {
    (void)device;
    return put(buffer, length, "NVIDIA H100 80GB HBM3");
}

Result nvmlDeviceGetUUID(void *device, char *buffer, unsigned length) {
    char text[80];
    snprintf(text, sizeof text, "GPU-00000000-0000-4000-8000-%012lx", index_of(device));
    return put(buffer, length, text);
}

Result nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    memory->total = TOTAL_MIB << 20;
    memory->used = state_of(device).used_mib << 20;
    memory->free = memory->total - memory->used;
    return refusal_of(device);
}

Result nvmlDeviceGetUtilizationRates(void *device, Rates *rates) {
    State state = state_of(device);
    if (state.refuses == REFUSES_RATES) return NOT_SUPPORTED;
    rates->gpu = state.percent;
    rates->memory = state.percent / 2;
    return refusal_of(device);
}

Result nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    (void)sensor;
    *celsius = 40 + (unsigned)index_of(device);
    return refusal_of(device);
}

Result nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = 70500 + 1000 * (unsigned)index_of(device);
    return refusal_of(device);
}

Result nvmlDeviceGetPciInfo_v3(void *device, PciInfo *info) {
    memset(info, 0, sizeof *info);
    info->bus = 0x18 + (unsigned)index_of(device);
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
    return OK;
}

Result nvmlDeviceGetNumaNodeId(void *device, unsigned *node) {
    *node = (unsigned)index_of(device) / 4;
    return OK;
}
