// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FIBER_HPP
#define CAUSEWAY_SIM_FIBER_HPP

// Functions that can be left in the middle and gone on with later, all on one thread: what lets ordinary blocking code of
// many peers run in one simulated cluster. Each has a stack of its own with a guard page below it; stacks are reused. On
// ucontext: a switch takes some 0.2 µs, most of it the signal mask, next to which a simulated event costs no less.
//
// A fiber keeps its own record of exceptions in flight, so that it may be left inside a catch block. Address and thread
// sanitizers are told of every switch.

#include <causeway/config/config.hpp>

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
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

namespace causeway::inline CAUSEWAY_ABI::sim {

/// Stacks of one size, kept for reuse. Not thread-safe. Must outlive the fibers on its stacks.
class stack_pool {
 public:
  explicit stack_pool(std::size_t bytes = std::size_t{256} << 10U)
      : page_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))} {
#if defined(CAUSEWAY_FIBER_ASAN) || defined(CAUSEWAY_FIBER_TSAN)
    bytes *= 4;  // sanitizers make every frame bigger
#endif
    bytes_ = (bytes + page_ - 1) / page_ * page_;
  }
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  ~stack_pool() {
    for (std::byte* const stack : free_) munmap(stack - page_, bytes_ + page_);
  }

  /// The lowest address of `bytes()` usable bytes. Throws std::bad_alloc.
  [[nodiscard]] std::byte* take() {
    if (!free_.empty()) {
      std::byte* const stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* const base = mmap(nullptr, bytes_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc{};
    mprotect(base, page_, PROT_NONE);  // an overflow ends the program here rather than in somebody's data
    ++mapped_;
    return static_cast<std::byte*>(base) + page_;
  }

  void give_back(std::byte* stack) {
#if defined(CAUSEWAY_FIBER_ASAN)
    __asan_unpoison_memory_region(stack, bytes_);
#endif
    free_.push_back(stack);
  }

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

/// One function on a stack of its own. Stays where it is: neither copied nor moved. It must have finished, or never been
/// resumed, when it is destroyed: its objects live on its stack.
class fiber {
 public:
  fiber(stack_pool& stacks, std::function<void()> body) : stacks_{stacks}, stack_{stacks.take()}, body_{std::move(body)} {
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_;
    inside_.uc_stack.ss_size = stacks_.bytes();
    inside_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);  // makecontext hands over ints only
    makecontext(&inside_, reinterpret_cast<void (*)()>(&fiber::enter), 2, static_cast<unsigned>(self >> 32U),
                static_cast<unsigned>(self));
#if defined(CAUSEWAY_FIBER_TSAN)
    tsan_inside_ = __tsan_create_fiber(0);
#endif
  }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  ~fiber() {
    CAUSEWAY_EXPECT(finished_ || !started_);
#if defined(CAUSEWAY_FIBER_TSAN)
    __tsan_destroy_fiber(tsan_inside_);
#endif
    stacks_.give_back(stack_);
  }

  [[nodiscard]] bool started() const noexcept { return started_; }
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  /// What the body threw, if it did.
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  /// From outside: runs the body until it suspends or ends.
  void resume() {
    CAUSEWAY_EXPECT(!finished_);
    started_ = true;
    swap_exceptions();
#if defined(CAUSEWAY_FIBER_ASAN)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack_, stacks_.bytes());
#endif
#if defined(CAUSEWAY_FIBER_TSAN)
    tsan_outside_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_inside_, 0);
#endif
    swapcontext(&outside_, &inside_);
#if defined(CAUSEWAY_FIBER_ASAN)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    swap_exceptions();
  }

  /// From inside: back to whoever resumed it.
  void suspend() {
#if defined(CAUSEWAY_FIBER_ASAN)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, outside_bottom_, outside_size_);
#endif
    leave();
#if defined(CAUSEWAY_FIBER_ASAN)
    __sanitizer_finish_switch_fiber(fake, &outside_bottom_, &outside_size_);
#endif
  }

 private:
  // What the C++ ABI keeps per thread: the exceptions that are being handled, and how many are on their way.
  struct exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  static void enter(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<fiber*>((std::uintptr_t{high} << 32U) | std::uintptr_t{low});
    self->run();
  }

  void run() {
#if defined(CAUSEWAY_FIBER_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &outside_bottom_, &outside_size_);
#endif
    try {
      body_();
    } catch (...) {
      failure_ = std::current_exception();
    }
    body_ = nullptr;  // what it captured goes here, on its own stack
    finished_ = true;
#if defined(CAUSEWAY_FIBER_ASAN)
    __sanitizer_start_switch_fiber(nullptr, outside_bottom_, outside_size_);
#endif
    leave();
  }

  void leave() {
#if defined(CAUSEWAY_FIBER_TSAN)
    __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
    swapcontext(&inside_, &outside_);
  }

  void swap_exceptions() noexcept {
    exceptions current;
    void* const place = abi::__cxa_get_globals();
    std::memcpy(&current, place, sizeof current);
    std::memcpy(place, &exceptions_, sizeof exceptions_);
    exceptions_ = current;
  }

  stack_pool& stacks_;
  std::byte* stack_;
  std::function<void()> body_;
  ucontext_t inside_{};
  ucontext_t outside_{};
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

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FIBER_HPP
