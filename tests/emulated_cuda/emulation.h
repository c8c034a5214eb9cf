// What CUDA code needs to run on the CPU: every thread of a block is a fiber, and blocks come one after
// the other. Included before the code itself, see compiler.py.
//
// Threads run in an order that differs from sweep to sweep, and now and then some warps do not run at all, so
// that code which counts on an order fails. A thread waits at __syncthreads until all threads of its block are
// there, and at a shuffle until all of its warp are; if they never come, the launch returns an error instead of
// hanging, and so it does where memory is touched that is not the program's.
#include <cmath>
#include <csetjmp>
#include <csignal>
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

constexpr int MOST_THREADS = 1024, STACK = 1 << 16, WARP = 32, EPOCH = 64;
enum Error { NONE, THREADS_MISSED_A_BARRIER, THREADS_MISSED_A_SHUFFLE, THREADS_WAIT_APART, OUTSIDE_OF_MEMORY };

struct Fiber {
    jmp_buf place;
    ucontext_t birth;
    bool begun, done;
    Dim3 index;
};

// Where threads wait for each other.
struct Meeting {
    int members, arrived, finished;
    long rounds;
};

inline Fiber fibers[MOST_THREADS];
inline Meeting whole_block, warps[MOST_THREADS / WARP];
inline long progress;
inline unsigned resting;  // a bit for each warp
inline int rested;        // sweeps
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

inline unsigned draw(unsigned below)
{
    static unsigned long long state = 1;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
}

// Let some warps, or none, do nothing for a while.
inline void rest()
{
    int count = (threads + WARP - 1) / WARP;
    resting = count > 1 && draw(4) ? draw(count < 31 ? 1u << count : 1u << 31) : 0;
    rested = 0;
}

// The life of a fiber: one thread after the other, since it is costly to make.
inline void live()
{
    for (;;) {
        body(arguments);
        fibers[current].done = true;
        ++whole_block.finished, ++warps[current / WARP].finished, ++progress;
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

inline void meet(Meeting &meeting, int what)
{
    ++progress;
    if (++meeting.arrived == meeting.members) {
        meeting.arrived = 0, ++meeting.rounds;
        // Where all have met, some may go far ahead before others take the next step.
        if (&meeting == &whole_block) rest();
        return;
    }
    for (long round = meeting.rounds; meeting.rounds == round;) {
        if (meeting.finished) fail(what);
        yield();
    }
}

inline unsigned long long exchange(unsigned long long bits, int from)
{
    int first = current / WARP * WARP;
    Meeting &warp = warps[current / WARP];
    slots[current] = bits;
    meet(warp, THREADS_MISSED_A_SHUFFLE);
    unsigned long long theirs = slots[from < warp.members ? first + from : current];
    meet(warp, THREADS_MISSED_A_SHUFFLE);  // before a slot is used again
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

inline int run_block()
{
    for (int i = 0; i < threads; ++i) {
        fibers[i].done = false;
        fibers[i].index = {i % block_size.x, i / block_size.x % block_size.y, i / block_size.x / block_size.y};
    }
    whole_block = {threads, 0, 0, 0};
    int count = (threads + WARP - 1) / WARP;
    for (int w = 0; w < count; ++w) warps[w] = {w + 1 < count ? WARP : threads - w * WARP, 0, 0, 0};
    error = NONE;
    long seen = progress;
    rest();
    for (int idle = 0; whole_block.finished < threads;) {
        if (++rested == EPOCH) rest();
        unsigned start = draw(threads), step = 1 + draw(threads);
        while (std::gcd(step, (unsigned)threads) != 1) ++step;
        for (int turn = 0; turn < threads; ++turn) {
            int at = (start + (unsigned long)turn * step) % threads;
            if (fibers[at].done || resting >> at / WARP & 1) continue;
            resume(at);
            if (error) return error;
        }
        if (progress == seen) resting = 0;
        idle = progress == seen ? idle + 1 : 0;
        seen = progress;
        if (idle > 2) return THREADS_WAIT_APART;
    }
    return NONE;
}

[[noreturn]] inline void on_fault(int) { fail(OUTSIDE_OF_MEMORY); }

template <class Call> int launch(const unsigned *grid, const unsigned *size, Call call)
{
    if (!stacks) stacks = new char[(long)MOST_THREADS * STACK];
    grid_size = {grid[0], grid[1], grid[2]};
    block_size = {size[0], size[1], size[2]};
    threads = size[0] * size[1] * size[2];
    body = [](void *call) { (*static_cast<Call *>(call))(); };
    arguments = &call;
    struct sigaction catching = {}, before;
    catching.sa_handler = on_fault;
    catching.sa_flags = SA_NODEFER;  // the handler does not return
    sigaction(SIGSEGV, &catching, &before);
    int what = NONE;
    for (block.z = 0; block.z < grid[2] && !what; ++block.z)
        for (block.y = 0; block.y < grid[1] && !what; ++block.y)
            for (block.x = 0; block.x < grid[0] && !what; ++block.x) what = run_block();
    sigaction(SIGSEGV, &before, nullptr);
    return what;
}

}  // namespace emulated

#define threadIdx (emulated::fibers[emulated::current].index)
#define blockIdx (emulated::block)
#define blockDim (emulated::block_size)
#define gridDim (emulated::grid_size)

inline void __syncthreads()
{
    emulated::meet(emulated::whole_block, emulated::THREADS_MISSED_A_BARRIER);
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
