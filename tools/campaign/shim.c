/* Preloaded into cdec by the tests: fails, cuts short or kills at the k-th call of one kind.
 *
 * CDEC_SHIM names a file that all processes map; tools/campaign/shim.py says what stands in it. Only
 * calls on paths in one folder are counted, logged and broken, and only while `on` is set. Calls are
 * made by number, so that nothing has to be looked up while the process starts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE 16384

enum { WRITE, FSYNC, RENAME, LINK, OPEN, UNLINK, FTRUNCATE, CALLS };
enum { FAIL, SHORT, KILL };
static const char *const NAMES[CALLS] = {"write", "fsync",  "rename",   "link",
                                         "open",  "unlink", "ftruncate"};

struct orders {
  uint32_t on, call, at, lasts, deed, error, hits, unused;
  uint32_t counts[8];
  char folder[4096];
  char log[4096];
};

static struct orders *orders;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CDEC_SHIM");
  if (path == NULL) return;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return;
  void *mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (mapped != MAP_FAILED) orders = mapped;
}

static int starts(const char *path) {
  size_t length = strlen(orders->folder);
  return strncmp(path, orders->folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static ssize_t link_target(const char *link, char *out) {
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
  out[length < 0 ? 0 : length] = 0;
  return length;
}

/* Whether a path is in the folder; `out` (2 * PATH_MAX) becomes its absolute form. */
static int watched_path(int at, const char *path, char *out) {
  if (orders == NULL || !orders->on || path == NULL || strlen(path) >= PATH_MAX) return 0;
  out[0] = 0;
  if (path[0] != '/') {
    char link[64];
    snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
    if (link_target(link, out) < 0) return 0;
    strcat(out, "/");
  }
  strcat(out, path);
  return starts(out);
}

static int watched_fd(int fd, char *out) {
  char link[64];
  if (orders == NULL || !orders->on) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  return link_target(link, out) > 0 && starts(out);
}

/* Note a call: a line of fields, then the bytes that were written, if any. */
static void note(int call, const char *how, uint64_t inode, int64_t offset, const char *path,
                 const char *other, const void *data, size_t size) {
  if (orders->log[0] == 0) return;
  char *line = malloc(5 * PATH_MAX + size);
  if (line == NULL) return;
  int length = snprintf(line, 5 * PATH_MAX, "%s\x1f%s\x1f%llu\x1f%lld\x1f%zu\x1f%s\x1f%s\n",
                        NAMES[call], how, (unsigned long long)inode, (long long)offset, size, path,
                        other);
  if (data != NULL) memcpy(line + length, data, size);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, orders->log, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
  if (fd >= 0) {
    syscall(SYS_write, fd, line, length + size);
    syscall(SYS_close, fd);
  }
  free(line);
}

/* Count a call; carry out what is ordered of it. Returns 0: go on, 1: failed, 2: a short write. */
static int strike(int call, const char *path) {
  uint32_t number = __atomic_add_fetch(&orders->counts[call], 1, __ATOMIC_SEQ_CST);
  if (!orders->at || orders->call != (uint32_t)call) return 0;
  if (number != orders->at && !(orders->lasts && number > orders->at)) return 0;
  __atomic_add_fetch(&orders->hits, 1, __ATOMIC_SEQ_CST);
  note(call, "broken", 0, 0, path, "", NULL, 0);
  if (orders->deed == KILL) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
  }
  if (orders->deed == SHORT) return 2;
  errno = (int)orders->error;
  return 1;
}

static uint64_t inode_of(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

ssize_t write(int fd, const void *data, size_t size) {
  char path[2 * PATH_MAX];
  if (!watched_fd(fd, path)) return syscall(SYS_write, fd, data, size);
  int struck = strike(WRITE, path);
  if (struck == 1) return -1;
  if (struck == 2 && size > 1) size /= 2;
  ssize_t done = syscall(SYS_write, fd, data, size);
  int error = errno;
  if (done >= 0)
    note(WRITE, "done", inode_of(fd), syscall(SYS_lseek, fd, 0, SEEK_CUR) - done, path, "", data,
         (size_t)done);
  errno = error;
  return done;
}

static int sync_with(long number, int fd) {
  char path[2 * PATH_MAX];
  if (!watched_fd(fd, path)) return (int)syscall(number, fd);
  if (strike(FSYNC, path)) return -1;
  int done = (int)syscall(number, fd);
  if (done == 0) note(FSYNC, "done", inode_of(fd), 0, path, "", NULL, 0);
  return done;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int ftruncate(int fd, off_t size) {
  char path[2 * PATH_MAX];
  if (!watched_fd(fd, path)) return (int)syscall(SYS_ftruncate, fd, size);
  if (strike(FTRUNCATE, path)) return -1;
  int done = (int)syscall(SYS_ftruncate, fd, size);
  if (done == 0) note(FTRUNCATE, "done", inode_of(fd), size, path, "", NULL, 0);
  return done;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

static int open_with(int at, const char *name, int flags, mode_t mode) {
  char path[2 * PATH_MAX];
  if (!watched_path(at, name, path)) return (int)syscall(SYS_openat, at, name, flags, mode);
  if (strike(OPEN, path)) return -1;
  int fd = (int)syscall(SYS_openat, at, name, flags, mode);
  int error = errno;
  if (fd >= 0 && (flags & (O_CREAT | O_TRUNC)))
    note(OPEN, flags & O_TRUNC ? "emptied" : "made", inode_of(fd), 0, path, "", NULL, 0);
  errno = error;
  return fd;
}

#define MODE                                                   \
  mode_t mode = 0;                                             \
  if (flags & (O_CREAT | O_TMPFILE)) {                         \
    va_list rest;                                              \
    va_start(rest, flags);                                     \
    mode = va_arg(rest, mode_t);                               \
    va_end(rest);                                              \
  }

int open(const char *name, int flags, ...) { MODE return open_with(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE return open_with(AT_FDCWD, name, flags, mode); }
int openat(int at, const char *name, int flags, ...) { MODE return open_with(at, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) {
  MODE return open_with(at, name, flags, mode);
}

int renameat(int from, const char *old, int to, const char *new) {
  char path[2 * PATH_MAX], source[2 * PATH_MAX];
  if (!watched_path(to, new, path)) return (int)syscall(SYS_renameat2, from, old, to, new, 0);
  if (strike(RENAME, path)) return -1;
  int done = (int)syscall(SYS_renameat2, from, old, to, new, 0);
  watched_path(from, old, source);
  if (done == 0) note(RENAME, "done", 0, 0, source, path, NULL, 0);
  return done;
}
int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int linkat(int from, const char *old, int to, const char *new, int flags) {
  char path[2 * PATH_MAX], source[2 * PATH_MAX];
  if (!watched_path(to, new, path)) return (int)syscall(SYS_linkat, from, old, to, new, flags);
  if (strike(LINK, path)) return -1;
  int done = (int)syscall(SYS_linkat, from, old, to, new, flags);
  int error = errno;
  watched_path(from, old, source);
  if (done == 0) note(LINK, "done", 0, 0, source, path, NULL, 0);
  errno = error;
  return done;
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int unlinkat(int at, const char *name, int flags) {
  char path[2 * PATH_MAX];
  if (!watched_path(at, name, path)) return (int)syscall(SYS_unlinkat, at, name, flags);
  if (strike(UNLINK, path)) return -1;
  int done = (int)syscall(SYS_unlinkat, at, name, flags);
  int error = errno;
  if (done == 0) note(UNLINK, "done", 0, 0, path, "", NULL, 0);
  errno = error;
  return done;
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
