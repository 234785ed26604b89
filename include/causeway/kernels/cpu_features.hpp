// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_CPU_FEATURES_HPP
#define CAUSEWAY_KERNELS_CPU_FEATURES_HPP

// Which vector instructions a kernel may use, found at run time: a program built for any x86-64 uses what its machine has.
// Functions marked with a CAUSEWAY_TARGET_ macro are compiled for that instruction set whatever the build's flags say; they
// may be called only after detect_simd_level() said so.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CAUSEWAY_X86_SIMD 1
#define CAUSEWAY_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define CAUSEWAY_TARGET_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
#define CAUSEWAY_TARGET_AVX512_BF16 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define CAUSEWAY_TARGET_AMX \
  __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")))
#else
#define CAUSEWAY_X86_SIMD 0
#endif

// Before a loop over an array of vectors: unrolled, so that the array lives in registers. nvcc's front end knows no such
// pragma.
#if defined(__CUDACC__)
#define CAUSEWAY_UNROLL
#elif defined(__clang__)
#define CAUSEWAY_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define CAUSEWAY_UNROLL _Pragma("GCC unroll 16")
#else
#define CAUSEWAY_UNROLL
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Instruction sets, each containing the ones before.
enum class simd_level : std::uint8_t {
  portable,     ///< nothing beyond what the compiler was told
  avx2,         ///< AVX2, FMA, F16C
  avx512,       ///< AVX-512 F, BW, VL, DQ
  avx512_bf16,  ///< AVX-512 and its bf16 dot products
  amx_bf16,     ///< tiles of AMX and their bf16 products
};
inline constexpr simd_level simd_levels[] = {simd_level::portable, simd_level::avx2, simd_level::avx512,
                                             simd_level::avx512_bf16, simd_level::amx_bf16};

#if CAUSEWAY_X86_SIMD
namespace detail {

/// Whether this process may use tiles of bf16: the processor has them, the system saves them, and Linux, which is asked
/// here, lets the process have their 8 KiB a thread.
inline bool request_amx() noexcept {
#if defined(__linux__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned os_saves_state = 1U << 27U;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & os_saves_state) == 0) return false;
  constexpr unsigned amx_bf16_and_tile = 1U << 22U | 1U << 24U;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & amx_bf16_and_tile) != amx_bf16_and_tile) return false;
  asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  constexpr unsigned tile_state = 1U << 17U | 1U << 18U;
  if ((a & tile_state) != tile_state) return false;
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM, of Linux 5.16
  constexpr long tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace detail
#endif

namespace detail {
inline simd_level simd_limit = simd_level::amx_bf16;
}

/// Leaves out what is above `most`, as on a machine without it: for measurements and tests. Before anything else is called
/// of this library.
inline void limit_simd_level(simd_level most) noexcept { detail::simd_limit = most; }

/// The best level of this machine. Asks the processor, and Linux for the use of AMX, once a process.
inline simd_level detect_simd_level() noexcept {
#if CAUSEWAY_X86_SIMD
  static const simd_level level = std::min(detail::simd_limit, [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return simd_level::portable;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (!avx512) return simd_level::avx2;
    if (!__builtin_cpu_supports("avx512bf16")) return simd_level::avx512;
    return detail::request_amx() ? simd_level::amx_bf16 : simd_level::avx512_bf16;
  }());
  return level;
#else
  return simd_level::portable;
#endif
}

constexpr std::string_view to_string(simd_level level) noexcept {
  switch (level) {
    case simd_level::portable: return "portable";
    case simd_level::avx2: return "avx2";
    case simd_level::avx512: return "avx512";
    case simd_level::avx512_bf16: return "avx512, avx512_bf16";
    case simd_level::amx_bf16: return "avx512, amx_bf16";
  }
  return "unknown";
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_CPU_FEATURES_HPP
