/* The wall clock of a program that is measured: what a file says, which only the play moves.

   cc -shared -fPIC -O2 -o clock.so clock.c -ldl; then LD_PRELOAD=clock.so WEEK_CLOCK=FILE program

   FILE holds one number of eight bytes, nanoseconds since 1970. The monotonic clock stays the machine's own, and with
   it every time-out of a connection. libfaketime (0.9.10) does the same and more, but calls the clock before it has
   found the real one when the program's malloc is jemalloc, as Varnish's is, and gives up.

   Memory is never asked for here: a malloc may ask what time it is. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *wall;

__attribute__((constructor)) static void find_wall(void)
{
    const char *path = getenv("WEEK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(0, sizeof *wall, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        wall = page;
    close(file);
}

static int64_t real_now(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
    if (!wall || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE))
        return (int)syscall(SYS_clock_gettime, which, now);
    int64_t at = *wall;
    now->tv_sec = at / SECOND;
    now->tv_nsec = at % SECOND;
    return 0;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec at;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &at);
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (now)
        *now = at.tv_sec;
    return at.tv_sec;
}

/* Who waits until a moment of our clock waits for as long as it is off. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real)
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlvsym(
            RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real)
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlsym(
            RTLD_NEXT, "pthread_cond_timedwait");
    if (!wall)
        return real(cond, mutex, until);
    int64_t at = until->tv_sec * SECOND + until->tv_nsec - *wall + real_now();
    struct timespec moved = {at / SECOND, at % SECOND};
    return real(cond, mutex, &moved);
}
