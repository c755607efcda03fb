/* The part of the stand-in for NVIDIA's library that changes devices; included by fake_nvml.c. Changes are lines that it adds to
 * $FAKE_NVML_STATE. Keys: mig (1: the mode is on), resets (1: the mode needs a reset), busy (1: a program uses the instances), "gi<id
 * of a profile>" (number of such instances), made (changes so far, a part of the UUIDs), limits (1: limits of memory are ignored, 2:
 * refused, 3: the driver has none). Limits are files of the directory $FAKE_NVML_LIMITS, one for each control group and device.
 * $FAKE_NVML_DIES_AFTER: number of made instances after which the process dies. */
#include <unistd.h>

enum { NO_PERMISSION = 4, FUNCTION_NOT_FOUND = 13, IN_USE = 19, INSUFFICIENT_RESOURCES = 23 };
enum { LIMITS_IGNORED = 1, LIMITS_REFUSED = 2, LIMITS_MISSING = 3 };

typedef struct { const char *name; unsigned id, slices, eighths, most; } Profile;
typedef struct {
    unsigned version, id, p2p, slices, instances, engines[6];
    unsigned long long mib;
    char name[96];
} GpuProfileInfo;
typedef struct { unsigned version, id, slices, instances, engines[6]; char name[96]; } ComputeProfileInfo;
typedef struct { const char *cgroup; unsigned long long soft, hard, used; } Limits;

static const Profile PROFILES[] = {
    {"MIG 1g.10gb", 19, 1, 1, 7}, {"MIG 2g.20gb", 14, 2, 2, 3}, {"MIG 3g.40gb", 9, 3, 4, 2}, {"MIG 4g.40gb", 5, 4, 4, 1},
    {"MIG 7g.80gb", 0, 7, 8, 1},
};
enum { PROFILE_COUNT = sizeof PROFILES / sizeof *PROFILES, GPU_SLICES = 7, GPU_EIGHTHS = 8, GPU_INSTANCE = 10000000 };

static void tell(void *device, const char *key, unsigned long long value) {
    FILE *file = fopen(getenv("FAKE_NVML_STATE"), "a");
    fprintf(file, "%ld %s %llu\n", whole_of(device), key, value);
    fclose(file);
}

static const char *key_of(const Profile *profile) {
    static char key[16];
    snprintf(key, sizeof key, "gi%u", profile->id);
    return key;
}

static unsigned long long count_of(void *device, const Profile *profile) {
    return told_of(device, key_of(profile), profile->id == 19 ? told_of(device, "instances", 0) : 0);
}

/* The profile of the instance at this position among those of a device, in the order of the table. */
static const Profile *profile_at(void *device, unsigned long long position) {
    for (int each = 0; each < PROFILE_COUNT; each++) {
        unsigned long long count = count_of(device, &PROFILES[each]);
        if (position < count) return &PROFILES[each];
        position -= count;
    }
    return NULL;
}

static const Profile *instance_profile(void *instance) {
    return profile_at((void *)(whole_of(instance) + 1), (unsigned long long)((long)instance % 1000));
}

static const Profile *profile_with(unsigned id) {
    for (int each = 0; each < PROFILE_COUNT; each++)
        if (PROFILES[each].id == id) return &PROFILES[each];
    return NULL;
}

static unsigned room_for(void *device, const Profile *wanted) {
    unsigned long long slices = GPU_SLICES, eighths = GPU_EIGHTHS, room;
    for (int each = 0; each < PROFILE_COUNT; each++) {
        slices -= count_of(device, &PROFILES[each]) * PROFILES[each].slices;
        eighths -= count_of(device, &PROFILES[each]) * PROFILES[each].eighths;
    }
    room = slices / wanted->slices < eighths / wanted->eighths ? slices / wanted->slices : eighths / wanted->eighths;
    return (unsigned)room;
}

static void *device_of(void *instance) { return (void *)((long)instance / GPU_INSTANCE); }

static const Profile *profile_of(void *instance) { return profile_with((unsigned)((long)instance % GPU_INSTANCE / 100)); }

static void change(void *device, const Profile *profile, int by) {
    tell(device, key_of(profile), count_of(device, profile) + (unsigned long long)by);
    tell(device, "made", told_of(device, "made", 0) + 1);
}

Result nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    long index = -1;
    if (sscanf(uuid, "GPU-00000000-0000-4000-8000-%lx", &index) != 1 || index >= count_of_devices()) return NOT_FOUND;
    *device = (void *)(index + 1);
    return OK;
}

Result nvmlDeviceSetMigMode(void *device, unsigned mode, Result *status) {
    *status = OK;
    if (!told_of(device, "resets", 0)) tell(device, "mig", mode);
    return OK;
}

Result nvmlDeviceGetGpuInstanceProfileInfoV(void *device, unsigned number, GpuProfileInfo *info) {
    (void)device;
    if (number >= PROFILE_COUNT) return NOT_SUPPORTED;
    info->id = PROFILES[number].id;
    info->slices = PROFILES[number].slices;
    info->instances = PROFILES[number].most;
    info->mib = TOTAL_MIB * PROFILES[number].eighths / GPU_EIGHTHS;
    return put(info->name, sizeof info->name, PROFILES[number].name);
}

Result nvmlDeviceGetGpuInstanceRemainingCapacity(void *device, unsigned id, unsigned *count) {
    *count = room_for(device, profile_with(id));
    return OK;
}

Result nvmlDeviceGetGpuInstances(void *device, unsigned id, void **instances, unsigned *count) {
    *count = (unsigned)count_of(device, profile_with(id));
    for (unsigned each = 0; each < *count; each++)
        instances[each] = (void *)((long)device * GPU_INSTANCE + (long)id * 100 + each);
    return OK;
}

Result nvmlDeviceCreateGpuInstance(void *device, unsigned id, void **instance) {
    static int made;
    const char *last = getenv("FAKE_NVML_DIES_AFTER");
    if (last && made++ == atoi(last)) _exit(137);
    if (!room_for(device, profile_with(id))) return INSUFFICIENT_RESOURCES;
    *instance = (void *)((long)device * GPU_INSTANCE + (long)id * 100);
    change(device, profile_with(id), 1);
    return OK;
}

Result nvmlGpuInstanceDestroy(void *instance) {
    if (told_of(device_of(instance), "busy", 0)) return IN_USE;
    change(device_of(instance), profile_of(instance), -1);
    return OK;
}

Result nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *instance, unsigned number, unsigned engines, ComputeProfileInfo *info) {
    (void)engines;
    if (number + 1 > profile_of(instance)->slices) return NOT_SUPPORTED;
    info->id = number;
    info->slices = number + 1;
    return OK;
}

Result nvmlGpuInstanceGetComputeInstances(void *instance, unsigned id, void **found, unsigned *count) {
    *count = id + 1 == profile_of(instance)->slices;
    if (*count) found[0] = instance;
    return OK;
}

Result nvmlGpuInstanceCreateComputeInstance(void *instance, unsigned id, void **made) {
    *made = instance;
    return id + 1 == profile_of(instance)->slices ? OK : INSUFFICIENT_RESOURCES;
}

Result nvmlComputeInstanceDestroy(void *instance) { return told_of(device_of(instance), "busy", 0) ? IN_USE : OK; }

static FILE *limits_file(void *device, const char *cgroup, const char *mode) {
    char path[1024];
    int length = snprintf(path, sizeof path, "%s/", getenv("FAKE_NVML_LIMITS"));
    for (const char *each = cgroup; *each; each++) path[length++] = *each == '/' ? '_' : *each;
    snprintf(path + length, sizeof path - (size_t)length, "_%ld", index_of(device));
    return fopen(path, mode);
}

Result nvmlDeviceSetMemoryLimits_v1(void *device, Limits *limits) {
    FILE *file;
    switch (told_of(device, "limits", 0)) {
    case LIMITS_IGNORED: return OK;
    case LIMITS_REFUSED: return NO_PERMISSION;
    case LIMITS_MISSING: return FUNCTION_NOT_FOUND;
    }
    file = limits_file(device, limits->cgroup, "w");
    fprintf(file, "%llu %llu\n", limits->soft, limits->hard);
    fclose(file);
    return OK;
}

Result nvmlDeviceGetMemoryLimits_v1(void *device, Limits *limits) {
    FILE *file = limits_file(device, limits->cgroup, "r");
    limits->soft = limits->hard = ~0ull;
    limits->used = 0;
    if (!file) return OK;
    if (fscanf(file, "%llu %llu", &limits->soft, &limits->hard) != 2) return INVALID_ARGUMENT;
    fclose(file);
    return OK;
}
