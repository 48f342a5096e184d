// A pool of threads that sleep until a large step has parts for them. Compiled once, for any
// processor: the kernels are called through a pointer.
#include "threads.h"

#include <pthread.h>

namespace {

constexpr int64_t MOST_THREADS = 64;

struct Job {
    void (*work)(void *, int64_t);
    void *argument;
    int64_t parts, next;  // `next` is taken by one thread after the other
};

pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;  // held by the thread whose job it is
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    // of everything below
pthread_cond_t new_job = PTHREAD_COND_INITIALIZER, all_done = PTHREAD_COND_INITIALIZER;
Job *job = nullptr;
int64_t job_number = 0, busy = 0, helpers = 0, wanted = 1;

void do_parts(Job *mine) {
    for (;;) {
        const int64_t part = __atomic_fetch_add(&mine->next, 1, __ATOMIC_RELAXED);
        if (part >= mine->parts) return;
        mine->work(mine->argument, part);
    }
}

void *help(void *) {
    int64_t seen = 0;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (job == nullptr || job_number == seen) pthread_cond_wait(&new_job, &lock);
        seen = job_number;
        Job *mine = job;
        ++busy;
        pthread_mutex_unlock(&lock);
        do_parts(mine);
        pthread_mutex_lock(&lock);
        if (--busy == 0) pthread_cond_signal(&all_done);
    }
    return nullptr;
}

// After a fork the child has none of the threads, and locks in any state.
void forget_threads() {
    asking = lock = PTHREAD_MUTEX_INITIALIZER;
    new_job = all_done = PTHREAD_COND_INITIALIZER;
    job = nullptr;
    busy = helpers = 0;
}

// With `lock` held. A machine that gives no more threads does with fewer.
void start_helpers() {
    static const int prepared = pthread_atfork(nullptr, nullptr, forget_threads);
    while (prepared == 0 && helpers + 1 < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, help, nullptr) != 0) return;
        pthread_detach(thread);
        ++helpers;
    }
}

}  // namespace

void use_threads(int64_t count) {
    pthread_mutex_lock(&lock);
    wanted = count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : count;
    pthread_mutex_unlock(&lock);
}

void share_parts(void (*work)(void *, int64_t), void *argument, int64_t parts) {
    Job mine{work, argument, parts, 0};
    // Whoever finds the pool in use works alone: the cores are busy then anyway.
    if (parts < 2 || pthread_mutex_trylock(&asking) != 0) return do_parts(&mine);
    pthread_mutex_lock(&lock);
    if (wanted > 1) {
        start_helpers();
        job = &mine;
        ++job_number;
        const int64_t some = (parts < wanted ? parts : wanted) - 1;
        for (int64_t i = 0; i < some; ++i) pthread_cond_signal(&new_job);
    }
    pthread_mutex_unlock(&lock);
    do_parts(&mine);
    pthread_mutex_lock(&lock);
    job = nullptr;  // a helper that wakes up late finds nothing
    while (busy > 0) pthread_cond_wait(&all_done, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&asking);
}
