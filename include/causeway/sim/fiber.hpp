// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FIBER_HPP
#define CAUSEWAY_SIM_FIBER_HPP

// Functions that can be left in the middle and gone on with later, all on one thread: what lets ordinary blocking code of
// many peers run in one simulated cluster. Each has a stack of its own with a guard page below it; stacks are reused. A
// switch takes some nanoseconds: what a function call keeps, and nothing of the signal mask, for which swapcontext calls
// the system each time.
//
// A fiber keeps its own record of exceptions in flight, so that it may be left inside a catch block. Address and thread
// sanitizers are told of every switch.

#include <causeway/config/config.hpp>

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define CAUSEWAY_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAUSEWAY_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CAUSEWAY_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CAUSEWAY_FIBER_TSAN 1
#endif
#endif

#if defined(CAUSEWAY_FIBER_ASAN)
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
#endif
#if defined(CAUSEWAY_FIBER_TSAN)
extern "C" void* __tsan_get_current_fiber();
extern "C" void* __tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void* fiber);
extern "C" void __tsan_switch_to_fiber(void* fiber, unsigned flags);
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

/// Stacks of one size, kept for reuse. Not thread-safe. Must outlive the fibers on its stacks.
class stack_pool {
 public:
  CAUSEWAY_DECL explicit stack_pool(std::size_t bytes = std::size_t{256} << 10U);
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  ~stack_pool();

  /// The lowest address of `bytes()` usable bytes. Throws std::bad_alloc.
  CAUSEWAY_DECL [[nodiscard]] std::byte* take();

  CAUSEWAY_DECL void give_back(std::byte* stack);

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Stacks taken from the operating system, in use or free.
  [[nodiscard]] std::size_t mapped() const noexcept { return mapped_; }
  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }

 private:
  std::size_t page_;
  std::size_t bytes_ = 0;
  std::size_t mapped_ = 0;
  std::vector<std::byte*> free_;
};

namespace detail {

/// Goes on where `enters` was left, and notes in `leaves` where this was: a place on a stack that has what a call preserves
/// (System V ABI, x86-64), and the address to go on from.
void switch_stack(void** leaves, void* enters) noexcept;

}  // namespace detail

/// One function on a stack of its own. Stays where it is: neither copied nor moved. It must have finished, or never been
/// resumed, when it is destroyed: its objects live on its stack.
class fiber {
 public:
  CAUSEWAY_DECL fiber(stack_pool& stacks, std::function<void()> body);
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  ~fiber();

  [[nodiscard]] bool started() const noexcept { return started_; }
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  /// What the body threw, if it did.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  /// From outside: runs the body until it suspends or ends.
  CAUSEWAY_DECL void resume();

  /// From inside: back to whoever resumed it.
  CAUSEWAY_DECL void suspend();

 private:
  // What the C++ ABI keeps per thread: the exceptions that are being handled, and how many are on their way.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  // The one that is resumed for the first time: the first frame on its stack is given no argument.
  static inline thread_local fiber* beginning_ = nullptr;
  static void enter();

  CAUSEWAY_DECL void run();

  CAUSEWAY_DECL void leave();

  CAUSEWAY_DECL void swap_exceptions() noexcept;

  stack_pool& stacks_;
  std::byte* stack_;
  std::function<void()> body_;
  void* inside_ = nullptr;  // where it was left
  void* outside_ = nullptr;
  exceptions exceptions_{};
  std::exception_ptr failure_;
  bool started_ = false;
  bool finished_ = false;
#if defined(CAUSEWAY_FIBER_ASAN)
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
#endif
#if defined(CAUSEWAY_FIBER_TSAN)
  void* tsan_inside_ = nullptr;
  void* tsan_outside_ = nullptr;
#endif
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/fiber.ipp>
#endif

#endif  // CAUSEWAY_SIM_FIBER_HPP
