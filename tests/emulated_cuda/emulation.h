// What CUDA code needs to run on the CPU: every thread of a block is a fiber, and blocks come one after
// the other. Included before the code itself, see build.py.
//
// Threads run in an order that differs from sweep to sweep, so that code which counts on one fails. A
// thread waits at __syncthreads until all threads of its block are there, and at a shuffle until all of
// its warp are; if they never come, the launch returns an error instead of hanging.
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static  // blocks do not overlap in time

struct uint4 { unsigned x, y, z, w; } __attribute__((aligned(16)));
struct Dim3 { unsigned x, y, z; };

namespace emulated {

constexpr int MOST_THREADS = 1024, STACK = 1 << 16, WARP = 32;
enum Error { NONE, THREADS_MISSED_A_BARRIER, THREADS_MISSED_A_SHUFFLE };

struct Fiber {
    jmp_buf place;
    ucontext_t birth;
    bool begun, done;
    long arrivals;  // at barriers of the block
    long exchanges; // with the warp
    Dim3 index;
};

inline Fiber fibers[MOST_THREADS];
inline char *stacks;
inline jmp_buf scheduler;
inline int current, threads, error;
inline Dim3 grid_size, block_size, block;
inline unsigned long long slots[MOST_THREADS];
inline void (*body)(void *);
inline void *arguments;

[[noreturn]] inline void leave() { _longjmp(scheduler, 1); }
inline void yield()
{
    if (!_setjmp(fibers[current].place)) leave();
}

// The life of a fiber: one thread after the other, since it is costly to make.
inline void live()
{
    for (;;) {
        body(arguments);
        fibers[current].done = true;
        yield();
    }
}

// Give up: the fibers that wait for others are not used again.
[[noreturn]] inline void fail(int what)
{
    error = what;
    for (Fiber &fiber : fibers) fiber.begun = false;
    leave();
}

// Wait until the fibers from `first` to `last` have come as far as this one, by that count.
inline void meet(int first, int last, long Fiber::*count, int what)
{
    long mine = ++(fibers[current].*count);
    for (;;) {
        bool all = true;
        for (int i = first; i < last && all; ++i) {
            all = fibers[i].*count >= mine;
            if (!all && fibers[i].done) fail(what);
        }
        if (all) return;
        yield();
    }
}

inline unsigned long long exchange(unsigned long long bits, int from)
{
    int first = current / WARP * WARP, last = first + WARP < threads ? first + WARP : threads;
    slots[current] = bits;
    meet(first, last, &Fiber::exchanges, THREADS_MISSED_A_SHUFFLE);
    unsigned long long theirs = slots[first + from < last ? first + from : current];
    meet(first, last, &Fiber::exchanges, THREADS_MISSED_A_SHUFFLE);  // before a slot is used again
    return theirs;
}

template <class T> T exchanged(T value, int from)
{
    unsigned long long bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = exchange(bits, from);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

// Let a fiber run until it waits or ends.
inline void resume(int at)
{
    Fiber &fiber = fibers[current = at];
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    getcontext(&fiber.birth);
    fiber.birth.uc_stack.ss_sp = stacks + (long)at * STACK;
    fiber.birth.uc_stack.ss_size = STACK;
    fiber.birth.uc_link = nullptr;
    makecontext(&fiber.birth, live, 0);
    setcontext(&fiber.birth);
}

inline unsigned draw(unsigned below)
{
    static unsigned long long state = 1;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
}

inline int run_block()
{
    for (int i = 0; i < threads; ++i) {
        fibers[i].done = false;
        fibers[i].arrivals = fibers[i].exchanges = 0;
        fibers[i].index = {i % block_size.x, i / block_size.x % block_size.y, i / block_size.x / block_size.y};
    }
    error = NONE;
    for (int left = threads; left > 0;) {
        unsigned start = draw(threads), step = 1 + draw(threads);
        while (std::gcd(step, (unsigned)threads) != 1) ++step;
        for (int turn = 0; turn < threads; ++turn) {
            int at = (start + (unsigned long)turn * step) % threads;
            if (fibers[at].done) continue;
            resume(at);
            if (error) return error;
            left -= fibers[at].done;
        }
    }
    return NONE;
}

template <class Call> int launch(const unsigned *grid, const unsigned *size, Call call)
{
    if (!stacks) stacks = new char[(long)MOST_THREADS * STACK];
    grid_size = {grid[0], grid[1], grid[2]};
    block_size = {size[0], size[1], size[2]};
    threads = size[0] * size[1] * size[2];
    body = [](void *call) { (*static_cast<Call *>(call))(); };
    arguments = &call;
    for (block.z = 0; block.z < grid[2]; ++block.z)
        for (block.y = 0; block.y < grid[1]; ++block.y)
            for (block.x = 0; block.x < grid[0]; ++block.x)
                if (int what = run_block()) return what;
    return NONE;
}

}  // namespace emulated

#define threadIdx (emulated::fibers[emulated::current].index)
#define blockIdx (emulated::block)
#define blockDim (emulated::block_size)
#define gridDim (emulated::grid_size)

inline void __syncthreads()
{
    emulated::meet(0, emulated::threads, &emulated::Fiber::arrivals, emulated::THREADS_MISSED_A_BARRIER);
}
template <class T> T __shfl_xor_sync(unsigned, T value, int bit)
{
    return emulated::exchanged(value, emulated::current % emulated::WARP ^ bit);
}
template <class T> T __shfl_sync(unsigned, T value, int lane, int width = 32)
{
    int own = emulated::current % emulated::WARP;
    return emulated::exchanged(value, own / width * width + lane);
}
template <class T> T __shfl_up_sync(unsigned, T value, int distance)
{
    int own = emulated::current % emulated::WARP;
    return emulated::exchanged(value, own < distance ? own : own - distance);
}

template <class T> T atomicAdd(T *place, T value)
{
    T before = *place;
    *place = before + value;
    return before;
}

template <class To, class From> To emulated_bits(From value)
{
    static_assert(sizeof(To) == sizeof(From));
    To result;
    std::memcpy(&result, &value, sizeof(To));
    return result;
}
inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
inline int __float_as_int(float x) { return emulated_bits<int>(x); }
inline float __int_as_float(int x) { return emulated_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }
inline float host_half_to_float(unsigned short x) { return (float)emulated_bits<_Float16>(x); }
inline unsigned short host_float_to_half(float x) { return emulated_bits<unsigned short>((_Float16)x); }

// CUDA's names without std::, for float as for double.
using std::cosh, std::erf, std::exp, std::fabs, std::isinf, std::isnan, std::log, std::sqrt, std::tanh;
