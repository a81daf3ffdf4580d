/* Preloaded into a process (LD_PRELOAD), makes the n-th change of a file fail: SQLite's own way of testing what a disk may do.
 *
 * Calls that write, sync, open to write, rename, cut or remove are counted if the file's path has the text PATH in it. From
 * `fail_from(n, ...)` on, the n-th of them fails, and with `for_ever` all that follow.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { EARLY, LATE, SHORT }; /* not done; done, and reported as failed (a sync that failed); half written, without an error */

static char wanted[256];
static int left, for_ever, error, manner, writes_only, failed;

void fail_from(const char *path, int n, int ever, int code, int how, int only_writes) {
    snprintf(wanted, sizeof wanted, "%s", path);
    left = n, for_ever = ever, error = code, manner = how, writes_only = only_writes, failed = 0;
}

int has_failed(void) { return failed; }

static int hit(const char *path, int is_write) {
    if (!left || !path || !strstr(path, wanted) || (writes_only && !is_write) || (left > 0 && --left)) return 0;
    left = for_ever ? -1 : 0;
    failed++;
    return 1;
}

static const char *path_of(int fd, char *buffer, size_t size) {
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = left ? readlink(name, buffer, size - 1) : 0;
    buffer[length > 0 ? length : 0] = 0;
    return buffer;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REFUSE return errno = error, -1

#define WRITING(name, PARAMETERS, ...)                                                       \
    ssize_t name PARAMETERS {                                                                \
        char buffer[4096];                                                                   \
        if (!hit(path_of(fd, buffer, sizeof buffer), 1)) return REAL(name)(__VA_ARGS__);     \
        if (manner == SHORT) count = (count + 1) / 2;                                        \
        ssize_t done = manner == EARLY ? 0 : REAL(name)(__VA_ARGS__);                        \
        if (manner == SHORT) return done;                                                    \
        REFUSE;                                                                              \
    }
WRITING(write, (int fd, const void *data, size_t count), fd, data, count)
WRITING(pwrite, (int fd, const void *data, size_t count, off_t at), fd, data, count, at)
WRITING(pwrite64, (int fd, const void *data, size_t count, off64_t at), fd, data, count, at)

#define ON_HANDLE(name, PARAMETERS, ...)                                                     \
    int name PARAMETERS {                                                                    \
        char buffer[4096];                                                                   \
        if (!hit(path_of(fd, buffer, sizeof buffer), 0)) return REAL(name)(__VA_ARGS__);     \
        if (manner == LATE) (void)!REAL(name)(__VA_ARGS__);                                  \
        REFUSE;                                                                              \
    }
ON_HANDLE(fsync, (int fd), fd)
ON_HANDLE(fdatasync, (int fd), fd)
ON_HANDLE(ftruncate, (int fd, off_t size), fd, size)
ON_HANDLE(ftruncate64, (int fd, off64_t size), fd, size)

#define ON_NAME(name, PARAMETERS, path, ...)                                                 \
    int name PARAMETERS {                                                                    \
        if (hit(path, 0)) REFUSE;                                                            \
        return REAL(name)(__VA_ARGS__);                                                      \
    }
ON_NAME(rename, (const char *from, const char *to), from, from, to)
ON_NAME(unlink, (const char *path), path, path)

#define OPENING(name, PARAMETERS, ...)                                                       \
    int name PARAMETERS {                                                                    \
        va_list more;                                                                        \
        va_start(more, flags);                                                               \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;              \
        va_end(more);                                                                        \
        if ((flags & O_ACCMODE) != O_RDONLY && hit(path, 0)) REFUSE;                         \
        return REAL(name)(__VA_ARGS__);                                                      \
    }
OPENING(open, (const char *path, int flags, ...), path, flags, mode)
OPENING(open64, (const char *path, int flags, ...), path, flags, mode)
OPENING(openat, (int folder, const char *path, int flags, ...), folder, path, flags, mode)
OPENING(openat64, (int folder, const char *path, int flags, ...), folder, path, flags, mode)
