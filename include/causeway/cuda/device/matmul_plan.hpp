// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_MATMUL_PLAN_HPP
#define CAUSEWAY_CUDA_DEVICE_MATMUL_PLAN_HPP

// What identifies a matrix product on the device, and how our row-major matrices look to a library that stores columns.
// Choosing an algorithm takes far longer than starting one, so it is done once for each key; everything that the choice may
// depend on is in the key, alignment of the pointers included. Knows nothing of CUDA.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/tensor/dtype.hpp>

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// What happens to a product on its way to memory. `vector` and `matrix` are the further arguments that it takes.
enum class matmul_epilogue : std::uint8_t {
  none,
  bias,              ///< + vector [n]
  bias_gelu,         ///< gelu(product + vector [n]); matrix [m, n] receives what gelu was applied to
  gelu_gradient,     ///< product · gelu'(matrix [m, n]); no column sums, which would be rounded to bf16
  column_sums_of_b,  ///< vector [n] receives the sums over k of op(B): the bias gradient, where B is dy
  row_sums_of_a,     ///< vector [m] receives the sums over k of op(A): the bias gradient, where A is dy transposed
};

constexpr bool has_vector(matmul_epilogue e) noexcept {
  return e != matmul_epilogue::none && e != matmul_epilogue::gelu_gradient;
}
constexpr bool has_matrix(matmul_epilogue e) noexcept {
  return e == matmul_epilogue::bias_gelu || e == matmul_epilogue::gelu_gradient;
}

/// C = epilogue(op(A) op(B)), or C += with `accumulate`: row-major, op(A) m x k, op(B) k x n, sums in f32. A and B are of
/// type `in`, C and the epilogue's arguments of type `out`. Leading dimensions as in kernels::gemm_args.
struct matmul_key {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t ld_matrix = 0;  ///< 0 where the epilogue has no matrix
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool tf32 = false;  ///< f32 operands may be rounded to 10 bits of mantissa
  dtype in = dtype::f32;
  dtype out = dtype::f32;
  matmul_epilogue epilogue = matmul_epilogue::none;
  std::uint8_t alignment = 16;  ///< bytes that all pointers are multiples of, 16 at most

  friend auto operator<=>(const matmul_key&, const matmul_key&) = default;
};

/// A product to make. Pointers are to device memory, `vector` and `matrix` are the epilogue's.
template <class In, class Out>
struct matmul_args {
  matmul_epilogue epilogue = matmul_epilogue::none;
  bool transpose_a = false;  ///< A is stored k x m
  bool transpose_b = false;  ///< B is stored n x k
  std::int64_t m = 0, n = 0, k = 0;
  const In* a = nullptr;
  std::int64_t lda = 0;
  const In* b = nullptr;
  std::int64_t ldb = 0;
  Out* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;      ///< C = the product + C
  const Out* addend = nullptr;  ///< with `accumulate`, what is added instead of C: m x n with `ldc`
  Out* vector = nullptr;
  Out* matrix = nullptr;
  std::int64_t ld_matrix = 0;
};

/// The largest power of two up to 16 that all addresses are multiples of; null counts for nothing.
template <class... P>
std::uint8_t common_alignment(const P*... p) noexcept {
  const std::uintptr_t all = (std::uintptr_t{16} | ... | reinterpret_cast<std::uintptr_t>(p));
  return static_cast<std::uint8_t>(std::uintptr_t{1} << std::countr_zero(all));
}

/// errc::invalid_argument for a product that no plan can be made for.
[[nodiscard]] inline result<void> validate(const matmul_key& key) {
  const auto wrong = [](std::string why) { return fail(errc::invalid_argument, "matrix product", std::move(why)); };
  if (key.m <= 0 || key.n <= 0 || key.k <= 0) return wrong("a dimension that is not positive");
  if (key.lda < (key.transpose_a ? key.m : key.k) || key.ldb < (key.transpose_b ? key.k : key.n) || key.ldc < key.n) {
    return wrong("rows longer than the distance between them");
  }
  const bool known = (key.in == dtype::bf16 && (key.out == dtype::bf16 || key.out == dtype::f32)) ||
                     (key.in == dtype::f32 && key.out == dtype::f32);
  if (!known)
    return wrong("operands in " + std::string{to_string(key.in)} + " for a result in " + std::string{to_string(key.out)} +
                 "; take f32, bf16, or bf16 to f32");
  if (has_matrix(key.epilogue) && (key.ld_matrix < key.n || key.ld_matrix % 8 != 0)) {
    return wrong("GELU needs rows of its second matrix that are a multiple of 8 elements apart");
  }
  if (key.accumulate && has_matrix(key.epilogue)) return wrong("GELU of a sum with what was there before");
  return {};
}

/// A matrix as a library sees it that stores columns one after another.
struct column_layout {
  std::int64_t rows = 0, columns = 0, stride = 0;
  friend bool operator==(const column_layout&, const column_layout&) = default;
};

/// The same product in terms of such a library: Cᵀ = op(B)ᵀ op(A)ᵀ, as what is stored by rows is the transpose of what is
/// stored by columns. So B comes first, and a matrix that we read as it is stored needs no transposition there either.
struct column_product {
  std::int64_t rows, columns, depth;
  bool transpose_first, transpose_second;
  column_layout first, second, result;
};

constexpr column_product by_columns(const matmul_key& key) noexcept {
  const auto stored = [](bool transposed, std::int64_t fast, std::int64_t slow, std::int64_t stride) {
    return transposed ? column_layout{slow, fast, stride} : column_layout{fast, slow, stride};
  };
  return {key.n,
          key.m,
          key.k,
          key.transpose_b,
          key.transpose_a,
          stored(key.transpose_b, key.n, key.k, key.ldb),
          stored(key.transpose_a, key.k, key.m, key.lda),
          {key.n, key.m, key.ldc}};
}

/// Plans by key. Not safe to share between threads; references stay valid while the cache lives.
template <class Plan>
class plan_cache {
 public:
  /// The plan of the key; `make(key)`, a result<Plan>, makes it the first time. Failures are not remembered.
  template <class Make>
  [[nodiscard]] result<Plan*> find_or_make(const matmul_key& key, Make&& make) {
    if (const auto found = plans_.find(key); found != plans_.end()) return &found->second;
    CAUSEWAY_TRY(validate(key));
    CAUSEWAY_ASSIGN(Plan plan, make(key));
    return &plans_.emplace(key, std::move(plan)).first->second;
  }

  [[nodiscard]] std::size_t size() const noexcept { return plans_.size(); }

 private:
  std::map<matmul_key, Plan> plans_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_MATMUL_PLAN_HPP
