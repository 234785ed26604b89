// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ONEDNN_GEMM_HPP
#define CAUSEWAY_KERNELS_ONEDNN_GEMM_HPP

// Matrix products by oneDNN, which compiles a kernel for each shape; kernels are kept. Empty unless causeway::onednn is
// linked, which defines CAUSEWAY_HAS_ONEDNN. oneDNN brings a thread pool (OpenMP's), and two pools that spin share no
// machine well: so each thread of ours runs a product of its own, for a part of C, and tells OpenMP to use one thread.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/openmp_guard.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#if defined(CAUSEWAY_HAS_ONEDNN)

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

/// All that a compiled product depends on.
struct onednn_key {
  std::array<std::int64_t, 7> sizes;  ///< m, n, k, lda, ldb, ldc, ld_residual
  bool transpose_a, transpose_b, half_in, half_out, accumulate, bias, residual, gelu;
  unsigned thread;  ///< each thread has memory objects of its own
  friend auto operator<=>(const onednn_key&, const onednn_key&) = default;
};

/// A compiled product and the memory objects that it reads and writes through.
struct onednn_product {
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::size_t scratch_bytes = 0;
};

template <class T>
inline constexpr auto onednn_type = std::is_same_v<T, bf16> ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;

inline dnnl::memory::desc onednn_matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld, bool transposed,
                                        dnnl::memory::data_type type) {
  return {{rows, columns}, type, transposed ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1}};
}

// What oneDNN 2 and 3 say differently. `bias` is null where there is none.
inline void append_gelu(dnnl::post_ops& after) {
#if DNNL_VERSION_MAJOR >= 3
  after.append_eltwise(dnnl::algorithm::eltwise_gelu_tanh, 0.0F, 0.0F);
#else
  after.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_tanh, 0.0F, 0.0F);
#endif
}
inline dnnl::matmul::primitive_desc onednn_plan(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                                const dnnl::memory::desc& b, const dnnl::memory::desc* bias,
                                                const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return bias != nullptr ? dnnl::matmul::primitive_desc{engine, a, b, *bias, c, attributes}
                         : dnnl::matmul::primitive_desc{engine, a, b, c, attributes};
#else
  const dnnl::matmul::desc what = bias != nullptr ? dnnl::matmul::desc{a, b, *bias, c} : dnnl::matmul::desc{a, b, c};
  return {what, attributes, engine};
#endif
}

}  // namespace detail

/// oneDNN's product. One calling thread at a time. Throws dnnl::error where oneDNN cannot allocate. Without AVX-512, where
/// oneDNN has no bf16 product, and for k = 0, packed_gemm does the work.
class onednn_gemm {
 public:
  static constexpr std::string_view name = "onednn";

  template <class In, class Out>
  void multiply(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& arguments) {
    gemm_args<In, Out> args = detail::checked(arguments);
    if (args.m == 0 || args.n == 0) return;
    // oneDNN has no second output, so a product whose pre-activation is kept is ours.
    if (args.k == 0 || args.pre_activation != nullptr || (std::is_same_v<In, bf16> && !half_)) {
      return fallback_.multiply(pool, memory, args);
    }
    const detail::one_openmp_thread caller;
    const unsigned threads = args.m * args.n * args.k < 200'000 ? 1 : pool.size();
    const auto grid = detail::choose_grid(args.m, args.n, 16, threads);
    auto frame = memory.open();
    prepare(args, grid, frame);
    if (grid.size() == 1) return run(0);
    pool.run([&](unsigned index) {
      if (index >= grid.size()) return;
      const detail::one_openmp_thread here;
      run(index);
    });
  }

  [[nodiscard]] std::string describe() const {
    const dnnl_version_t* v = dnnl::version();
    return "onednn " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) +
           (half_ ? " (bf16)" : "");
  }

 private:
  template <class In, class Out>
  void prepare(const gemm_args<In, Out>& args, detail::thread_grid grid, scratch::frame& frame) {
    current_.assign(grid.size(), nullptr);
    for (unsigned i = 0; i < grid.size(); ++i) {
      const index_range rows = share_of(args.m, i / grid.columns, grid.rows);
      const index_range columns = share_of(args.n, i % grid.columns, grid.columns, 16);
      if (rows.size() > 0 && columns.size() > 0) current_[i] = &place(part_of(args, rows, columns), i, frame);
    }
  }

  void run(unsigned index) {
    if (current_[index] == nullptr) return;
    dnnl::stream& stream = streams_.at(index);
    current_[index]->primitive.execute(stream, current_[index]->arguments);
    stream.wait();
  }

  template <class In, class Out>
  static gemm_args<In, Out> part_of(gemm_args<In, Out> args, index_range rows, index_range columns) noexcept {
    args.a += rows.begin * (args.transpose_a ? 1 : args.lda);
    args.b += columns.begin * (args.transpose_b ? args.ldb : 1);
    args.c += rows.begin * args.ldc + columns.begin;
    if (args.bias != nullptr) args.bias += columns.begin;
    if (args.residual != nullptr) args.residual += rows.begin * args.ld_residual + columns.begin;
    args.m = rows.size();
    args.n = columns.size();
    return args;
  }

  /// The compiled product for one thread's part, with its memory objects set to this call's pointers.
  template <class In, class Out>
  detail::onednn_product& place(const gemm_args<In, Out>& args, unsigned thread, scratch::frame& frame) {
    while (streams_.size() <= thread) streams_.emplace_back(engine_);
    const detail::onednn_key key{{args.m, args.n, args.k, args.lda, args.ldb, args.ldc, args.ld_residual},
                                 args.transpose_a,
                                 args.transpose_b,
                                 std::is_same_v<In, bf16>,
                                 std::is_same_v<Out, bf16>,
                                 args.accumulate,
                                 args.bias != nullptr,
                                 args.residual != nullptr,
                                 args.act == activation::gelu,
                                 thread};
    auto found = products_.find(key);
    if (found == products_.end()) found = products_.emplace(key, compile(args)).first;
    detail::onednn_product& p = found->second;
    set(p, DNNL_ARG_SRC, args.a);
    set(p, DNNL_ARG_WEIGHTS, args.b);
    set(p, DNNL_ARG_DST, args.c);
    if (args.bias != nullptr) set(p, DNNL_ARG_BIAS, args.bias);
    if (args.residual != nullptr) set(p, residual_argument(args), args.residual);
    set(p, DNNL_ARG_SCRATCHPAD, frame.take<std::byte>(std::max<std::size_t>(p.scratch_bytes, 1)));
    return p;
  }

  static void set(detail::onednn_product& product, int argument, const void* data) {
    product.arguments.at(argument).set_data_handle(const_cast<void*>(data));
  }

  /// The residual is added by the last post-operation, after the activation.
  template <class In, class Out>
  static int residual_argument(const gemm_args<In, Out>& args) noexcept {
    const int position = args.act == activation::gelu ? 1 : 0;
    return DNNL_ARG_ATTR_MULTIPLE_POST_OP(position) | DNNL_ARG_SRC_1;
  }

  template <class In, class Out>
  detail::onednn_product compile(const gemm_args<In, Out>& args) {
    using dnnl::memory;
    constexpr auto f32 = memory::data_type::f32;
    const auto a = detail::onednn_matrix(args.m, args.k, args.lda, args.transpose_a, detail::onednn_type<In>);
    const auto b = detail::onednn_matrix(args.k, args.n, args.ldb, args.transpose_b, detail::onednn_type<In>);
    const auto c = detail::onednn_matrix(args.m, args.n, args.ldc, false, detail::onednn_type<Out>);
    const memory::desc bias{{1, args.n}, f32, memory::dims{args.n, 1}};
    const auto residual = detail::onednn_matrix(args.m, args.n, args.ld_residual, false, f32);
    dnnl::post_ops after;
    if (args.accumulate) after.append_sum(1.0F);
    if (args.act == activation::gelu) detail::append_gelu(after);
    if (args.residual != nullptr) after.append_binary(dnnl::algorithm::binary_add, residual);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(after);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto how = detail::onednn_plan(engine_, a, b, args.bias != nullptr ? &bias : nullptr, c, attributes);

    detail::onednn_product product;
    product.primitive = dnnl::matmul{how};
    product.scratch_bytes = how.scratchpad_desc().get_size();
    const auto add = [&](int argument, const memory::desc& d) {
      product.arguments.emplace(argument, memory{d, engine_, DNNL_MEMORY_NONE});
    };
    add(DNNL_ARG_SRC, a);
    add(DNNL_ARG_WEIGHTS, b);
    add(DNNL_ARG_DST, c);
    add(DNNL_ARG_SCRATCHPAD, how.scratchpad_desc());
    if (args.bias != nullptr) add(DNNL_ARG_BIAS, bias);
    if (args.residual != nullptr) add(residual_argument(args), residual);
    return product;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  bool half_ = detect_simd_level() >= simd_level::avx512;
  std::vector<dnnl::stream> streams_;
  std::map<detail::onednn_key, detail::onednn_product> products_;
  std::vector<detail::onednn_product*> current_;
  packed_gemm fallback_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_HAS_ONEDNN

#endif  // CAUSEWAY_KERNELS_ONEDNN_GEMM_HPP
