// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_CBLAS_GEMM_HPP
#define CAUSEWAY_KERNELS_CBLAS_GEMM_HPP

// Matrix products by any BLAS with the C interface. Empty unless causeway::blas is linked, which defines
// CAUSEWAY_HAS_CBLAS. The library's own threads are switched off where it says how (OpenBLAS and BLIS do): each thread of
// ours multiplies a part of C. A BLAS knows f32 alone, so bf16 operands are widened into scratch first.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/openmp_guard.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/kernels/packed_gemm_finish.hpp>
#include <causeway/tensor/scratch.hpp>

#if defined(CAUSEWAY_HAS_CBLAS)

#include <cblas.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// The product of the BLAS that is linked. One calling thread at a time. Sizes must fit its integers.
class cblas_gemm {
 public:
  static constexpr std::string_view name = "cblas";

  /// Sets the BLAS library to one thread, for the whole process.
  cblas_gemm() {
    using set_threads = void (*)(int);
    for (const char* function : {"openblas_set_num_threads", "bli_thread_set_num_threads", "MKL_Set_Num_Threads"}) {
      if (const auto set = detail::loaded_function<set_threads>(function); set != nullptr) set(1);
    }
  }

  template <class In, class Out>
  void multiply(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& arguments) {
    const gemm_args<In, Out> args = detail::checked(arguments);
    if (args.m == 0 || args.n == 0) return;
    auto frame = memory.open();
    sums what{.transpose_a = args.transpose_a, .transpose_b = args.transpose_b, .m = args.m, .n = args.n, .k = args.k};
    widen(pool, frame, args.a, args.transpose_a ? args.k : args.m, args.transpose_a ? args.m : args.k, args.lda, what.a,
          what.lda);
    widen(pool, frame, args.b, args.transpose_b ? args.n : args.k, args.transpose_b ? args.k : args.n, args.ldb, what.b,
          what.ldb);
    place(frame, args, what);
    const unsigned threads = args.m * args.n * args.k < 200'000 ? 1 : pool.size();
    const auto grid = detail::choose_grid(args.m, args.n, 16, threads);
    const auto share = [&](unsigned index) {
      if (index < grid.size()) part(args, what, grid, index);
    };
    if (grid.size() == 1) return share(0);
    pool.run(share);
  }

  [[nodiscard]] std::string describe() const {
    using get_config = char* (*)();
    const auto get = detail::loaded_function<get_config>("openblas_get_config");
    return get == nullptr ? std::string{"cblas"} : "cblas (" + std::string{get()} + ")";
  }

 private:
  /// sums = op(A) op(B), or sums +=, all f32.
  struct sums {
    bool transpose_a = false;
    bool transpose_b = false;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    const float* a = nullptr;
    std::int64_t lda = 0;
    const float* b = nullptr;
    std::int64_t ldb = 0;
    float* c = nullptr;
    std::int64_t ldc = 0;
    bool add = false;
    bool done = false;  ///< the sums are C already, and nothing is left to do with them
  };

  /// The operand itself, or an f32 copy without gaps.
  template <class In>
  static void widen(thread_pool& pool, scratch::frame& frame, const In* from, std::int64_t rows, std::int64_t columns,
                    std::int64_t ld, const float*& to, std::int64_t& ld_to) {
    if constexpr (std::is_same_v<In, float>) {
      static_cast<void>(pool), static_cast<void>(frame), static_cast<void>(rows), static_cast<void>(columns);
      to = from;
      ld_to = ld;
    } else {
      auto* copy = frame.template take<float>(static_cast<std::size_t>(rows * columns));
      if (ld == columns) {
        convert(pool, from, copy, rows * columns);
      } else {
        for (std::int64_t i = 0; i < rows; ++i) convert(pool, from + i * ld, copy + i * columns, columns);
      }
      to = copy;
      ld_to = columns;
    }
  }

  /// Sums go straight to C where C is f32 and nothing but an addition to C is asked for.
  template <class In, class Out>
  static void place(scratch::frame& frame, const gemm_args<In, Out>& args, sums& what) {
    if constexpr (std::is_same_v<Out, float>) {
      if (args.bias == nullptr && args.residual == nullptr && args.act == activation::none &&
          args.pre_activation == nullptr) {
        what.c = args.c;
        what.ldc = args.ldc;
        what.add = args.accumulate;
        what.done = true;
        return;
      }
    }
    what.c = frame.template take<float>(static_cast<std::size_t>(args.m * args.n));
    what.ldc = args.n;
  }

  /// One thread's part of C.
  template <class In, class Out>
  static void part(const gemm_args<In, Out>& args, const sums& what, detail::thread_grid grid, unsigned index) {
    const index_range rows = share_of(what.m, index / grid.columns, grid.rows);
    const index_range columns = share_of(what.n, index % grid.columns, grid.columns, 16);
    if (rows.size() <= 0 || columns.size() <= 0) return;
    const float* a = what.a + rows.begin * (what.transpose_a ? 1 : what.lda);
    const float* b = what.b + columns.begin * (what.transpose_b ? what.ldb : 1);
    float* c = what.c + rows.begin * what.ldc + columns.begin;
    const detail::one_openmp_thread here;  // an OpenMP flavour of OpenBLAS forgets its setting in threads it has not met
    const auto size = [](std::int64_t n) { return static_cast<int>(n); };
    cblas_sgemm(CblasRowMajor, what.transpose_a ? CblasTrans : CblasNoTrans, what.transpose_b ? CblasTrans : CblasNoTrans,
                size(rows.size()), size(columns.size()), size(what.k), 1.0F, a, size(what.lda), b, size(what.ldb),
                what.add ? 1.0F : 0.0F, c, size(what.ldc));
    if (what.done) return;
    const auto to = detail::finish_at(args, rows.begin, columns.begin);
    detail::finish_sums(detect_simd_level(), c, what.ldc, rows.size(), columns.size(), &to);
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_HAS_CBLAS

#endif  // CAUSEWAY_KERNELS_CBLAS_GEMM_HPP
