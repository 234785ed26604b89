// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_TARGETS_HPP
#define CAUSEWAY_KERNELS_TARGETS_HPP

// One kernel, compiled for several instruction sets, chosen at run time. A kernel is a struct with a static, always
// inlined `run(arguments...)` written with the vectors of simd_math.hpp; `dispatch<Kernel>(level, arguments...)` calls the
// copy of it that was compiled for `level` (AVX-512, AVX2, or what the build's flags allow). So a build with -O2 and
// without -march=native is as quick as one with it. A kernel with `exact = true` is never contracted (a*b+c stays two
// roundings): it gives the same bits at every level, hence on every machine, which replicas that step on their own rely on.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>

#include <cstdint>
#include <utility>

// Contraction is a property of the copy with GCC and of the source text with clang; an exact kernel uses both macros.
#if defined(__clang__)
#define CAUSEWAY_EXACT_COPY
#define CAUSEWAY_EXACT_BODY _Pragma("clang fp contract(off)")
#else
#define CAUSEWAY_EXACT_COPY __attribute__((optimize("fp-contract=off")))
#define CAUSEWAY_EXACT_BODY
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

template <class Kernel, class... Args>
using kernel_result = decltype(Kernel::run(std::declval<Args>()...));

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE kernel_result<Kernel, Args...> run_portable(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_EXACT_COPY kernel_result<Kernel, Args...> run_portable_exact(Args... args) {
  return Kernel::run(args...);
}

#if CAUSEWAY_X86_SIMD
template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX2 kernel_result<Kernel, Args...> run_avx2(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX2 CAUSEWAY_EXACT_COPY kernel_result<Kernel, Args...> run_avx2_exact(Args... args) {
  return Kernel::run(args...);
}

template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX512 kernel_result<Kernel, Args...> run_avx512(Args... args) {
  return Kernel::run(args...);
}

/// A kernel may have a form of its own, `run_wide`, for machines with registers for 64 bytes, whose vectors of 64 bytes
/// compilers also compare and narrow in single instructions.
template <class Kernel, class... Args>
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX512 CAUSEWAY_EXACT_COPY kernel_result<Kernel, Args...> run_avx512_exact(Args... args) {
  if constexpr (requires { Kernel::run_wide(args...); }) {
    return Kernel::run_wide(args...);
  } else {
    return Kernel::run(args...);
  }
}
#endif

/// Calls the copy of `Kernel::run` for `level`, which this machine must support.
template <class Kernel, class... Args>
inline kernel_result<Kernel, Args...> dispatch(simd_level level, Args... args) {
  constexpr bool exact = Kernel::exact;
#if CAUSEWAY_X86_SIMD
  if constexpr (exact) {
    if (level >= simd_level::avx512) return run_avx512_exact<Kernel>(args...);
    if (level == simd_level::avx2) return run_avx2_exact<Kernel>(args...);
  } else {
    if (level >= simd_level::avx512) return run_avx512<Kernel>(args...);
    if (level == simd_level::avx2) return run_avx2<Kernel>(args...);
  }
#endif
  (void)level;
  if constexpr (exact) {
    return run_portable_exact<Kernel>(args...);
  } else {
    return run_portable<Kernel>(args...);
  }
}

/// Fewer elements than this are not worth waking a second thread for.
inline constexpr std::int64_t smallest_share = 16384;

/// Cuts [0, count) among the threads at multiples of 64 elements, so that no two of them write one cache line.
template <class F>
void for_elements(thread_pool& pool, std::int64_t count, F&& f) {
  if (count <= smallest_share) {
    if (count > 0) f(index_range{0, count});
  } else {
    pool.for_range(count, 64, f);
  }
}

/// Cuts [0, rows) among the threads, or leaves all rows with the caller when `rows * columns` is small.
template <class F>
void for_rows(thread_pool& pool, std::int64_t rows, std::int64_t columns, F&& f) {
  if (rows * columns <= smallest_share) {
    if (rows > 0) f(index_range{0, rows});
  } else {
    pool.for_range(rows, 1, f);
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

// In compiled mode the library has the copies of a kernel, and nobody else compiles them. Below a kernel, outside of all
// namespaces, for each list of arguments that it is called with: CAUSEWAY_EXACT_KERNEL((float*, const float*), add_kernel).
#if !defined(CAUSEWAY_COMPILED)
#define CAUSEWAY_KERNEL_COPIES(suffix, arguments, ...)
#else
#if defined(CAUSEWAY_DEFINE_KERNELS) || defined(CAUSEWAY_IMPLEMENTATION)
#define CAUSEWAY_KERNEL_COPY(function, arguments, ...) \
  template kernel_result<__VA_ARGS__, CAUSEWAY_THESE arguments> function<__VA_ARGS__> arguments;
#else
#define CAUSEWAY_KERNEL_COPY(function, arguments, ...) \
  extern template kernel_result<__VA_ARGS__, CAUSEWAY_THESE arguments> function<__VA_ARGS__> arguments;
#endif
#if CAUSEWAY_X86_SIMD
#define CAUSEWAY_X86_KERNEL_COPY CAUSEWAY_KERNEL_COPY
#else
#define CAUSEWAY_X86_KERNEL_COPY(function, arguments, ...)
#endif
#define CAUSEWAY_KERNEL_COPIES(suffix, arguments, ...)                                        \
  namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail { \
  CAUSEWAY_KERNEL_COPY(run_portable##suffix, arguments, __VA_ARGS__)                          \
  CAUSEWAY_X86_KERNEL_COPY(run_avx2##suffix, arguments, __VA_ARGS__)                          \
  CAUSEWAY_X86_KERNEL_COPY(run_avx512##suffix, arguments, __VA_ARGS__)                        \
  }}}                                                                                         \
  }
#define CAUSEWAY_THESE(...) __VA_ARGS__
#endif
#define CAUSEWAY_EXACT_KERNEL(arguments, ...) CAUSEWAY_KERNEL_COPIES(_exact, arguments, __VA_ARGS__)
#define CAUSEWAY_FAST_KERNEL(arguments, ...) CAUSEWAY_KERNEL_COPIES(, arguments, __VA_ARGS__)

#endif  // CAUSEWAY_KERNELS_TARGETS_HPP
