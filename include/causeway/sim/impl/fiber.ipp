// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_FIBER_IPP
#define CAUSEWAY_SIM_IMPL_FIBER_IPP

#include <causeway/sim/fiber.hpp>

#include <cstring>
#include <new>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

CAUSEWAY_DECL stack_pool::stack_pool(std::size_t bytes) : page_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))} {
#if defined(CAUSEWAY_FIBER_ASAN) || defined(CAUSEWAY_FIBER_TSAN)
  bytes *= 4;  // sanitizers make every frame bigger
#endif
  bytes_ = (bytes + page_ - 1) / page_ * page_;
}

CAUSEWAY_INLINE stack_pool::~stack_pool() {
  for (std::byte* const stack : free_) munmap(stack - page_, bytes_ + page_);
}

CAUSEWAY_DECL std::byte* stack_pool::take() {
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

CAUSEWAY_DECL void stack_pool::give_back(std::byte* stack) {
#if defined(CAUSEWAY_FIBER_ASAN)
  __asan_unpoison_memory_region(stack, bytes_);
#endif
  free_.push_back(stack);
}

namespace detail {

#if defined(__clang__)
__attribute__((naked, noinline))
#else
__attribute__((naked, noipa))  // callers must not conclude from its body which registers it leaves alone
#endif
CAUSEWAY_INLINE void
switch_stack(void**, void*) noexcept {
  asm(R"(
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
  )");
}

}  // namespace detail

CAUSEWAY_DECL fiber::fiber(stack_pool& stacks, std::function<void()> body)
    : stacks_{stacks}, stack_{stacks.take()}, body_{std::move(body)} {
  // As switch_stack leaves a stack, and for `enter` no caller.
  struct {
    std::uint32_t sse_control = __builtin_ia32_stmxcsr();
    std::uint32_t x87_control = 0;
    std::uintptr_t registers[6] = {};
    void (*next)() = &fiber::enter;
    std::uintptr_t caller = 0;
  } begin;
  asm("fnstcw %0" : "=m"(begin.x87_control));
  static_assert(sizeof begin == 72);
  inside_ = std::memcpy(stack_ + stacks_.bytes() - sizeof begin, &begin, sizeof begin);
#if defined(CAUSEWAY_FIBER_TSAN)
  tsan_inside_ = __tsan_create_fiber(0);
#endif
}

CAUSEWAY_INLINE fiber::~fiber() {
  CAUSEWAY_EXPECT(finished_ || !started_);
#if defined(CAUSEWAY_FIBER_TSAN)
  __tsan_destroy_fiber(tsan_inside_);
#endif
  stacks_.give_back(stack_);
}

CAUSEWAY_DECL void fiber::resume() {
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
  beginning_ = this;
  detail::switch_stack(&outside_, inside_);
#if defined(CAUSEWAY_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  swap_exceptions();
}

CAUSEWAY_DECL void fiber::suspend() {
#if defined(CAUSEWAY_FIBER_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, outside_bottom_, outside_size_);
#endif
  leave();
#if defined(CAUSEWAY_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(fake, &outside_bottom_, &outside_size_);
#endif
}

CAUSEWAY_INLINE void fiber::enter() { beginning_->run(); }

CAUSEWAY_DECL void fiber::run() {
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

CAUSEWAY_DECL void fiber::leave() {
#if defined(CAUSEWAY_FIBER_TSAN)
  __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
  detail::switch_stack(&inside_, outside_);
}

CAUSEWAY_DECL void fiber::swap_exceptions() noexcept {
  exceptions current;
  void* const place = abi::__cxa_get_globals();
  std::memcpy(&current, place, sizeof current);
  std::memcpy(place, &exceptions_, sizeof exceptions_);
  exceptions_ = current;
}

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_IMPL_FIBER_IPP
