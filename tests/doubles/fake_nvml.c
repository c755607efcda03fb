/* A stand-in for NVIDIA's library, as much of its C interface as Berth asks for. What its devices do stands in the file
 * $FAKE_NVML_STATE, which is read on every call: lines of "<index> <key> <value>", of which the last counts. Keys: used (MiB),
 * percent, pid (of one program that computes), refuses (1: its rates, as devices that are split do; 2: everything, as one that
 * fell off its bus), link (number of a group of linked devices), instances (of MIG; the mode is on if it is told), recovery,
 * pending, failure, ecc, reasons (of being slowed down), xid (an event, told once). $FAKE_NVML_GPUS devices; $FAKE_NVML_OPENED counts, by its size in
 * bytes, how often the library was opened; $FAKE_NVML_REFUSES is the result of opening it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { REFUSES_RATES = 1, REFUSES_EVERYTHING = 2 };

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Rates;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;
typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute_instance; } Process;
typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    int kind;
    Result result;
    union { double d; unsigned u; unsigned long ul; unsigned long long ull; } value;
} FieldValue;
typedef struct { unsigned processors, engines[5], slices, compute_slices; unsigned long long mib; } Attributes;

static const unsigned long long TOTAL_MIB = 81559;

static long index_of(void *device) { return (long)device - 1; }

static int count_of_devices(void) {
    const char *told = getenv("FAKE_NVML_GPUS");
    return told ? atoi(told) : 8;
}

/* An instance of a split device is a device whose number is 1000 times that of the whole one, and more. */
static long whole_of(void *device) { return (long)device >= 1000 ? (long)device / 1000 - 1 : index_of(device); }

static int is_instance(void *device) { return (long)device >= 1000; }

static unsigned long long told_of(void *device, const char *key, unsigned long long otherwise) {
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    unsigned long long value;
    char name[32];
    long index;
    if (!file) return otherwise;
    while (fscanf(file, "%ld %31s %llu", &index, name, &value) == 3)
        if (index == whole_of(device) && !strcmp(name, key)) otherwise = value;
    fclose(file);
    return otherwise;
}

static Result refusal_of(void *device) { return told_of(device, "refuses", 0) == REFUSES_EVERYTHING ? GPU_IS_LOST : OK; }

static Result put(char *buffer, unsigned length, const char *text) {
    if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return OK;
}

#include "fake_nvml_sharing.c"

Result nvmlInitWithFlags(unsigned flags) {
    const char *path = getenv("FAKE_NVML_OPENED");
    FILE *file = path ? fopen(path, "a") : NULL;
    const char *refusal = getenv("FAKE_NVML_REFUSES");
    (void)flags;
    if (file) {
        fputc('.', file);
        fclose(file);
    }
    return refusal ? atoi(refusal) : OK;
}

Result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

Result nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(Result result) {
    switch (result) {
    case OK: return "Success";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case NO_PERMISSION: return "Insufficient Permissions";
    case IN_USE: return "In use by another client";
    case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
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
    char text[80] = "NVIDIA H100 80GB HBM3";
    if (is_instance(device)) snprintf(text, sizeof text, "NVIDIA H100 80GB HBM3 %s", instance_profile(device)->name);
    return put(buffer, length, text);
}

Result nvmlDeviceGetUUID(void *device, char *buffer, unsigned length) {
    char text[80];
    if (is_instance(device))
        snprintf(text, sizeof text, "MIG-%08llx-0000-4000-8000-%012lx", told_of(device, "made", 0), (long)device);
    else
        snprintf(text, sizeof text, "GPU-00000000-0000-4000-8000-%012lx", index_of(device));
    return put(buffer, length, text);
}

Result nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    memory->total = (is_instance(device) ? TOTAL_MIB / GPU_EIGHTHS * instance_profile(device)->eighths : TOTAL_MIB) << 20;
    memory->used = is_instance(device) ? 0 : told_of(device, "used", 512) << 20;
    memory->free = memory->total - memory->used;
    return refusal_of(device);
}

Result nvmlDeviceGetUtilizationRates(void *device, Rates *rates) {
    if (is_instance(device) || told_of(device, "refuses", 0) == REFUSES_RATES) return NOT_SUPPORTED;
    rates->gpu = (unsigned)told_of(device, "percent", 0);
    rates->memory = rates->gpu / 2;
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

Result nvmlSystemGetDriverVersion(char *buffer, unsigned length) { return put(buffer, length, "575.57.08"); }

Result nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 12090;
    return OK;
}

Result nvmlDeviceGetMinorNumber(void *device, unsigned *minor) {
    *minor = (unsigned)index_of(device);
    return OK;
}

Result nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    (void)device;
    *major = 9;
    *minor = 0;
    return OK;
}

Result nvmlDeviceGetP2PStatus(void *one, void *other, int kind, int *status) {
    unsigned long long group = told_of(one, "link", 0);
    if (kind != 2) return INVALID_ARGUMENT;
    *status = group && group == told_of(other, "link", 0) ? 0 : 5;
    return OK;
}

Result nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
    unsigned pid = is_instance(device) ? 0 : (unsigned)told_of(device, "pid", 0), room = *count;
    *count = pid != 0;
    if (room < *count) return INSUFFICIENT_SIZE;
    if (pid) *processes = (Process){pid, told_of(device, "used", 512) << 20, ~0u, ~0u};
    return refusal_of(device);
}

Result nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending) {
    *now = *pending = (unsigned)told_of(device, "mig", told_of(device, "instances", 0) != 0);
    return OK;
}

Result nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) {
    (void)device;
    *count = 7;
    return OK;
}

Result nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **instance) {
    if (!profile_at(device, index)) return NOT_FOUND;
    *instance = (void *)((index_of(device) + 1) * 1000 + (long)index);
    return OK;
}

Result nvmlDeviceGetGpuInstanceId(void *instance, unsigned *id) {
    *id = (unsigned)((long)instance % 1000) + 7;
    return OK;
}

Result nvmlDeviceGetComputeInstanceId(void *instance, unsigned *id) {
    (void)instance;
    *id = 0;
    return OK;
}

Result nvmlDeviceGetAttributes_v2(void *instance, Attributes *attributes) {
    memset(attributes, 0, sizeof *attributes);
    if (!is_instance(instance)) return NOT_SUPPORTED;
    attributes->slices = attributes->compute_slices = instance_profile(instance)->slices;
    attributes->mib = TOTAL_MIB / GPU_EIGHTHS * instance_profile(instance)->eighths;
    return OK;
}

Result nvmlDeviceGetRemappedRows(void *device, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failure) {
    *correctable = *uncorrectable = 0;
    *pending = (unsigned)told_of(device, "pending", 0);
    *failure = (unsigned)told_of(device, "failure", 0);
    return OK;
}

Result nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    *count = kind == 1 && counter == 0 ? told_of(device, "ecc", 0) : 0;
    return OK;
}

Result nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) {
    *reasons = told_of(device, "reasons", 0);
    return OK;
}

Result nvmlDeviceGetFieldValues(void *device, int count, FieldValue *values) {
    for (int each = 0; each < count; each++) {
        values[each].result = values[each].field == 230 ? OK : NOT_SUPPORTED;
        values[each].value.u = (unsigned)told_of(device, "recovery", 0);
    }
    return OK;
}

typedef struct { void *device; unsigned long long type, xid; unsigned instance, compute_instance; } Event;

static unsigned long long last_xids[64];

Result nvmlEventSetCreate(void **set) {
    *set = last_xids;
    return OK;
}

Result nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    (void)device, (void)types, (void)set;
    return OK;
}

Result nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds) {
    (void)set, (void)milliseconds;
    for (long index = 0; index < count_of_devices(); index++) {
        void *device = (void *)(index + 1);
        unsigned long long xid = told_of(device, "xid", 0);
        if (xid == last_xids[index]) continue;
        last_xids[index] = xid;
        *event = (Event){device, 8, xid, 0, 0};
        return OK;
    }
    return TIMEOUT;
}
