// Lets time pass a hundred times as slowly for a program under valgrind, which is about as slow. A time-out is then as long for it as
// it is for one that runs on its own.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOWER = 100, SECOND_NS = 1000000000 };

int clock_gettime(clockid_t clock, struct timespec *shown) {
    if (syscall(SYS_clock_gettime, clock, shown) != 0) return -1;
    if (clock == CLOCK_MONOTONIC) {
        long long ns = (shown->tv_sec * (long long)SECOND_NS + shown->tv_nsec) / SLOWER;
        shown->tv_sec = ns / SECOND_NS;
        shown->tv_nsec = ns % SECOND_NS;
    }
    return 0;
}
