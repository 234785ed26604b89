// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_MATMUL_CUH
#define CAUSEWAY_CUDA_DEVICE_MATMUL_CUH

// Matrix products by cuBLASLt, with biases, GELU and their gradients in the epilogue, where they cost no pass over memory.
// An algorithm is chosen once for each shape. Those that add up partial sums with atomic operations are left out, so the
// same product gives the same bits again. Programs that use this link causeway::cublaslt.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/device/matmul_plan.hpp>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/tensor/dtype.hpp>

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Our error for one of cuBLASLt's.
[[nodiscard]] inline error to_error(cublasStatus_t code, std::string where) {
  const std::string said = cublasLtGetStatusString(code);
  switch (code) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return fail(errc::unsupported, std::move(where),
                  "cuBLASLt found no usable CUDA device (" + said + "); install an NVIDIA driver, or run on the CPU");
    case CUBLAS_STATUS_ALLOC_FAILED:
      return fail(errc::out_of_memory, std::move(where), "memory is full (" + said + "); use a smaller batch or model");
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return fail(errc::unsupported, std::move(where),
                  "this device or version of cuBLASLt has no way to do it (" + said + ")");
    case CUBLAS_STATUS_INVALID_VALUE: return fail(errc::invalid_argument, std::move(where), said);
    default: return fail(errc::device_lost, std::move(where), "the device failed (" + said + "); restart the process");
  }
}

[[nodiscard]] inline result<void> check(cublasStatus_t code, const char* where) {
  if (code == CUBLAS_STATUS_SUCCESS) return {};
  return to_error(code, where);
}

namespace detail {

using lt_handle = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, destroy_with<cublasLtDestroy>>;
using lt_product = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, destroy_with<cublasLtMatmulDescDestroy>>;
using lt_layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, destroy_with<cublasLtMatrixLayoutDestroy>>;
using lt_preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, destroy_with<cublasLtMatmulPreferenceDestroy>>;

constexpr cudaDataType_t lt_type(dtype t) noexcept { return t == dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

/// In its terms, where B comes first.
constexpr cublasLtEpilogue_t lt_epilogue(matmul_epilogue e) noexcept {
  switch (e) {
    case matmul_epilogue::none: return CUBLASLT_EPILOGUE_DEFAULT;
    case matmul_epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case matmul_epilogue::bias_gelu: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case matmul_epilogue::gelu_gradient: return CUBLASLT_EPILOGUE_DGELU;
    case matmul_epilogue::column_sums_of_b: return CUBLASLT_EPILOGUE_BGRADA;
    case matmul_epilogue::row_sums_of_a: return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// What cuBLASLt needs for one key, and the algorithm that it chose.
struct matmul_plan {
  lt_product product;
  lt_layout first, second, output;
  cublasLtMatmulAlgo_t algorithm{};
};

template <class T>
result<void> set(const lt_product& product, cublasLtMatmulDescAttributes_t what, const T& value) {
  return check(cublasLtMatmulDescSetAttribute(product.get(), what, &value, sizeof value), "describing a matrix product");
}

inline result<lt_layout> layout_of(const column_layout& l, dtype type) {
  cublasLtMatrixLayout_t made = nullptr;
  CAUSEWAY_TRY(check(cublasLtMatrixLayoutCreate(&made, lt_type(type), static_cast<std::uint64_t>(l.rows),
                                                static_cast<std::uint64_t>(l.columns), l.stride),
                     "describing a matrix"));
  return lt_layout{made};
}

inline result<lt_product> product_of(const matmul_key& key, const column_product& p) {
  cublasLtMatmulDesc_t made = nullptr;
  const auto how = key.in == dtype::f32 && key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  CAUSEWAY_TRY(check(cublasLtMatmulDescCreate(&made, how, CUDA_R_32F), "describing a matrix product"));
  lt_product product{made};
  CAUSEWAY_TRY(set(product, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_first ? CUBLAS_OP_T : CUBLAS_OP_N));
  CAUSEWAY_TRY(set(product, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_second ? CUBLAS_OP_T : CUBLAS_OP_N));
  CAUSEWAY_TRY(set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, lt_epilogue(key.epilogue)));
  if (has_vector(key.epilogue)) CAUSEWAY_TRY(set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, lt_type(key.out)));
  if (has_matrix(key.epilogue)) {
    CAUSEWAY_TRY(set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.ld_matrix));
    CAUSEWAY_TRY(set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, lt_type(key.out)));
  }
  return result<lt_product>{std::move(product)};
}

/// Workspace at most `workspace` bytes, pointers aligned as the key says, and no reduction by atomic operations.
inline result<lt_preference> preference_of(const matmul_key& key, std::size_t workspace) {
  cublasLtMatmulPreference_t made = nullptr;
  CAUSEWAY_TRY(check(cublasLtMatmulPreferenceCreate(&made), "choosing an algorithm"));
  lt_preference preference{made};
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    return check(cublasLtMatmulPreferenceSetAttribute(preference.get(), what, &value, sizeof value),
                 "choosing an algorithm");
  };
  const auto alignment = std::uint32_t{key.alignment};
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  CAUSEWAY_TRY(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace));
  CAUSEWAY_TRY(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
  CAUSEWAY_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment));
  CAUSEWAY_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment));
  CAUSEWAY_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment));
  CAUSEWAY_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment));
  return result<lt_preference>{std::move(preference)};
}

}  // namespace detail

/// Matrix products on the current device, for one stream at a time: products share a workspace. Movable, not copyable.
class matmul {
 public:
  /// `tf32` lets products of f32 use the tensor cores, with 10 bits of mantissa.
  [[nodiscard]] static result<matmul> create(bool tf32 = false, std::size_t workspace = std::size_t{32} << 20U) {
    cublasLtHandle_t made = nullptr;
    CAUSEWAY_TRY(check(cublasLtCreate(&made), "starting cuBLASLt"));
    detail::lt_handle handle{made};
    CAUSEWAY_ASSIGN(auto room, device_buffer<std::byte>::create(workspace));
    return result<matmul>{matmul{std::move(handle), std::move(room), tf32}};
  }

  /// Starts the product on the stream. Allocates nothing where the shape was seen before.
  template <class In, class Out>
  [[nodiscard]] result<void> multiply(stream& s, const matmul_args<In, Out>& args) {
    CAUSEWAY_ASSIGN(detail::matmul_plan* const plan,
                    plans_.find_or_make(key_of(args), [&](const matmul_key& key) { return make(key, args); }));
    CAUSEWAY_TRY(point_at(plan->product, args));
    const float one = 1.0F, before = args.accumulate ? 1.0F : 0.0F;
    const Out* const addend = args.addend == nullptr ? args.c : args.addend;
    return check(cublasLtMatmul(handle_.get(), plan->product.get(), &one, args.b, plan->first.get(), args.a,
                                plan->second.get(), &before, addend, plan->output.get(), args.c, plan->output.get(),
                                &plan->algorithm, room_.data(), room_.size(), s.handle()),
                 "starting a matrix product");
  }

  [[nodiscard]] std::size_t plans() const noexcept { return plans_.size(); }

 private:
  matmul(detail::lt_handle handle, device_buffer<std::byte> room, bool tf32)
      : handle_{std::move(handle)}, room_{std::move(room)}, tf32_{tf32} {}

  template <class In, class Out>
  [[nodiscard]] matmul_key key_of(const matmul_args<In, Out>& args) const {
    matmul_key key{args.m, args.n, args.k, args.lda, args.ldb, args.ldc};
    key.ld_matrix = has_matrix(args.epilogue) ? args.ld_matrix : 0;
    key.transpose_a = args.transpose_a, key.transpose_b = args.transpose_b;
    key.accumulate = args.accumulate, key.tf32 = tf32_;
    key.in = dtype_of<In>, key.out = dtype_of<Out>, key.epilogue = args.epilogue;
    key.alignment = common_alignment(args.a, args.b, args.c, args.addend, args.vector, args.matrix);
    return key;
  }

  template <class In, class Out>
  static result<void> point_at(const detail::lt_product& product, const matmul_args<In, Out>& args) {
    if (has_vector(args.epilogue)) CAUSEWAY_TRY(detail::set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.vector));
    if (!has_matrix(args.epilogue)) return {};
    return detail::set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.matrix);
  }

  /// The choice looks at the alignment of the epilogue's pointers, so they are set before.
  template <class In, class Out>
  [[nodiscard]] result<detail::matmul_plan> make(const matmul_key& key, const matmul_args<In, Out>& args) const {
    const column_product p = by_columns(key);
    detail::matmul_plan plan;
    CAUSEWAY_ASSIGN(plan.product, detail::product_of(key, p));
    CAUSEWAY_TRY(point_at(plan.product, args));
    CAUSEWAY_ASSIGN(plan.first, detail::layout_of(p.first, key.in));
    CAUSEWAY_ASSIGN(plan.second, detail::layout_of(p.second, key.in));
    CAUSEWAY_ASSIGN(plan.output, detail::layout_of(p.result, key.out));
    CAUSEWAY_ASSIGN(const auto preference, detail::preference_of(key, room_.size()));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    CAUSEWAY_TRY(
        check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), plan.product.get(), plan.first.get(), plan.second.get(),
                                             plan.output.get(), plan.output.get(), preference.get(), 1, &best, &found),
              "choosing an algorithm"));
    if (found == 0) return to_error(CUBLAS_STATUS_NOT_SUPPORTED, "choosing an algorithm");
    plan.algorithm = best.algo;
    return result<detail::matmul_plan>{std::move(plan)};
  }

  detail::lt_handle handle_;
  device_buffer<std::byte> room_;
  plan_cache<detail::matmul_plan> plans_;
  bool tf32_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_MATMUL_CUH
