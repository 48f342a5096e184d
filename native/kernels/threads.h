// Parts of a step that several threads share.
#ifndef NEXTQUERY_THREADS_H
#define NEXTQUERY_THREADS_H

#include <stdint.h>

// Do `work(argument, part)` for every part, each once, in any order and perhaps side by side; back
// when all are done. What a part writes must not depend on the threads, so that nothing does.
void share_parts(void (*work)(void *, int64_t), void *argument, int64_t parts);

// The most threads that work on a step from now on, the calling one included.
void use_threads(int64_t count);

#endif
