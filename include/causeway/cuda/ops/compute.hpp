// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_COMPUTE_HPP
#define CAUSEWAY_CUDA_OPS_COMPUTE_HPP

// The engine over any queue: which bodies each operation takes. Over a stream of the device it is what a GPU does
// (engine.cuh); over a queue of the host the tests hold it, whole models included, against the processor's backend.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/activation_bodies.hpp>
#include <causeway/cuda/bodies/dropout_body.hpp>
#include <causeway/cuda/bodies/norm_bodies.hpp>
#include <causeway/cuda/bodies/update_bodies.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/cuda/ops/attention.hpp>
#include <causeway/cuda/ops/embedding.hpp>
#include <causeway/cuda/ops/orthogonalise.hpp>
#include <causeway/cuda/ops/output_layer.hpp>
#include <causeway/cuda/ops/products.hpp>
#include <causeway/cuda/ops/queue_recording.hpp>
#include <causeway/cuda/ops/reductions.hpp>
#include <causeway/cuda/ops/row_operations.hpp>
#include <causeway/tensor/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// See engine.hpp for the operations.
template <EngineQueue Q>
class compute final : public row_operations<Q> {
  using base = row_operations<Q>;
  using base::number, base::queue_, base::run;

 public:
  using base::base;

  void multiply(const product& p) override {
    run([&] { return cuda::multiply(queue_, p); });
  }
  void multiply_gelu_gradient(const product& p, const_values x) override {
    run([&] { return cuda::multiply_gelu_gradient(queue_, p, x); });
  }
  void zero(float* y, std::int64_t count) override {
    run([&] { return queue_.elements(count, fill_body{y, 0.0F}); });
  }
  [[nodiscard]] double sum_of_squares(const float* x, std::int64_t count) override {
    return number([&](double* at) { return total_of<summand::square>(queue_, x, count, at); });
  }
  void add(values y, const_values a, const_values b, std::int64_t count) override {
    run_as(y.type, [&]<class T>() { return queue_.elements(count, add_body<T>{as<T>(a), as<T>(b), as<T>(y)}); });
  }
  void convert(const float* from, bf16* to, std::int64_t count) override {
    run([&] { return queue_.elements(count, convert_body<float, bf16>{from, to}); });
  }

  void embedding_forward(const std::int32_t* tokens, const float* table, const float* positions, float* x,
                         std::int64_t batch, std::int64_t T, std::int64_t C) override {
    run([&] { return queue_.elements(batch * T * C, embedding_forward_body{tokens, table, positions, x, T, C}); });
  }
  void embedding_backward(const std::int32_t* tokens, const float* dx, float* dtable, float* dpositions, std::int64_t batch,
                          std::int64_t T, std::int64_t C, std::int64_t vocabulary) override {
    run([&] { return cuda::embedding_backward(queue_, tokens, dx, dtable, dpositions, batch, T, C, vocabulary); });
  }

  void layer_norm_forward(const float* x, const float* gain, const float* bias, values y, float* mean, float* rstd,
                          std::int64_t rows, std::int64_t columns, float epsilon) override {
    norm_forward<true>(x, gain, bias, y, mean, rstd, rows, columns, epsilon);
  }
  void layer_norm_backward(const float* x, const float* gain, const float* mean, const float* rstd, const_values dy,
                           float* dx, bool accumulate, float* dgain, float* dbias, std::int64_t rows,
                           std::int64_t columns) override {
    norm_gradient<true>(x, gain, mean, rstd, dy, dx, accumulate, dgain, dbias, rows, columns);
  }
  void rms_norm_forward(const float* x, const float* gain, values y, float* rstd, std::int64_t rows, std::int64_t columns,
                        float epsilon) override {
    norm_forward<false>(x, gain, nullptr, y, nullptr, rstd, rows, columns, epsilon);
  }
  void rms_norm_backward(const float* x, const float* gain, const float* rstd, const_values dy, float* dx, bool accumulate,
                         float* dgain, std::int64_t rows, std::int64_t columns) override {
    norm_gradient<false>(x, gain, nullptr, rstd, dy, dx, accumulate, dgain, nullptr, rows, columns);
  }

  void gelu_forward(const_values x, values y, std::int64_t count) override {
    run_as(y.type, [&]<class T>() { return queue_.elements(count, gelu_forward_body<T>{as<T>(x), as<T>(y)}); });
  }
  void gelu_backward(const_values x, const_values dy, values dx, std::int64_t count) override {
    run_as(dx.type, [&]<class T>() {
      return queue_.elements(count, gelu_backward_body<T>{as<T>(x), as<T>(dy), as<T>(dx)});
    });
  }
  void swiglu_forward(const_values gate_up, values y, std::int64_t rows, std::int64_t hidden) override {
    run_as(y.type, [&]<class T>() {
      return queue_.elements(rows * hidden, swiglu_forward_body<T>{as<T>(gate_up), as<T>(y), hidden});
    });
  }
  void swiglu_backward(const_values gate_up, const_values dy, values dgate_up, std::int64_t rows,
                       std::int64_t hidden) override {
    run_as(dy.type, [&]<class T>() {
      const swiglu_backward_body<T> body{as<T>(gate_up), as<T>(dy), as<T>(dgate_up), hidden};
      return queue_.elements(rows * hidden, body);
    });
  }
  void bias_gradient(const_values dy, float* dbias, std::int64_t rows, std::int64_t columns) override {
    run_as(dy.type, [&]<class T>() { return cuda::bias_gradient(queue_, as<T>(dy), dbias, rows, columns); });
  }
  void dropout(values x, std::int64_t count, float rate, std::uint64_t seed, std::uint64_t stream) override {
    run_as(x.type, [&]<class T>() {
      dropout_body<T> body{as<T>(x), count, rate, seed, stream};
      if constexpr (RecordingQueue<Q>) body.changing = queue_.changing_seed(seed);
      return queue_.elements(body.counters(), body);
    });
  }
  void rotary(const kernels::rotary_table& table, values qkv, std::int64_t batch, std::int64_t T, std::int64_t row_stride,
              std::int64_t heads, std::int64_t head_size, bool inverse) override {
    CAUSEWAY_EXPECT(T <= table.positions() && head_size == table.head_size());
    run_as(qkv.type, [&]<class Act>() -> result<void> {
      CAUSEWAY_ASSIGN(const float* const angles, angles_of(table));
      const std::int64_t half = head_size / 2;
      const rotary_body<Act> body{
          angles, angles + table.positions() * half, as<Act>(qkv), T, row_stride, heads, half, inverse ? -1.0F : 1.0F};
      return queue_.elements(batch * T * heads * half, body);
    });
  }

  void attention_forward(const kernels::attention_shape& shape, const_values q, const_values k, const_values v, values o,
                         float* logsumexp) override {
    run_as(o.type, [&]<class T>() {
      return cuda::attention_forward(queue_, shape, as<T>(q), as<T>(k), as<T>(v), as<T>(o), logsumexp);
    });
  }
  void attention_backward(const kernels::attention_shape& shape, const_values q, const_values k, const_values v,
                          const_values o, const_values d_o, const float* logsumexp, values dq, values dk,
                          values dv) override {
    run_as(o.type, [&]<class T>() {
      return cuda::attention_backward(queue_, shape, as<T>(q), as<T>(k), as<T>(v), as<T>(o), as<T>(d_o), logsumexp,
                                      as<T>(dq), as<T>(dk), as<T>(dv));
    });
  }

  [[nodiscard]] double cross_entropy(const_values x, const_values w, const std::int32_t* targets, std::int64_t rows,
                                     std::int64_t C, std::int64_t V, float grad_scale, values dx, float* dw) override {
    return number([&](double* at) -> result<void> {
      const auto count = static_cast<std::size_t>(rows);
      CAUSEWAY_ASSIGN(const auto wanted, queue_.template take<std::int32_t>(count));
      CAUSEWAY_TRY(queue_.copy_in(wanted.data(), targets, count * sizeof(std::int32_t)));
      return with_type(x.type, [&]<class T>() {
        return output_layer(queue_, as<T>(x), as<T>(w), wanted.data(), rows, C, V, grad_scale, as<T>(dx), dw, at);
      });
    });
  }

  void adamw_update(float* p, const float* g, float* m, float* v, std::int64_t count, const kernels::adamw_coefficients& c,
                    std::span<const std::int64_t> turns) override {
    run([&]() -> result<void> {
      if (turns.empty()) return queue_.elements(count, adamw_body{p, g, m, v, c});
      for (std::int64_t begin = 0; begin < count;) {
        const auto these = turns.first(std::min(turns.size(), decay_turns::most));
        turns = turns.subspan(these.size());
        const std::int64_t end = turns.empty() ? count : turns.front();
        const adamw_body update{p + begin, g + begin, m + begin, v + begin, c};
        CAUSEWAY_TRY(queue_.elements(end - begin, turning_adamw_body{update, decay_turns{these, begin}}));
        begin = end;
      }
      return {};
    });
  }
  void muon_update(float* p, const float* g, float* u, std::int64_t rows, std::int64_t columns,
                   const muon_coefficients& c) override {
    run([&] { return cuda::muon_update(queue_, p, g, u, rows, columns, c); });
  }

  [[nodiscard]] std::unique_ptr<recording> make_recording() override {
    if constexpr (RecordingQueue<Q>) {
      if (!queue_.records()) return nullptr;
      if (auto kept = queue_.make_recording()) {
        return std::make_unique<queue_recording<Q, compute>>(*this, queue_, std::move(kept).value());
      }
    }
    return nullptr;
  }

 private:
  template <class, class>
  friend class queue_recording;

  template <class T>
  [[nodiscard]] static const T* as(const_values v) noexcept {
    CAUSEWAY_EXPECT(v.at == nullptr || v.type == dtype_of<T>);
    return static_cast<const T*>(v.at);
  }
  template <class T>
  [[nodiscard]] static T* as(values v) noexcept {
    CAUSEWAY_EXPECT(v.at == nullptr || v.type == dtype_of<T>);
    return static_cast<T*>(v.at);
  }

  template <class F>
  static result<void> with_type(dtype type, F&& f) {
    CAUSEWAY_EXPECT(type == dtype::f32 || type == dtype::bf16);
    return type == dtype::bf16 ? f.template operator()<bf16>() : f.template operator()<float>();
  }

  template <class F>
  void run_as(dtype type, F&& f) {
    run([&] { return with_type(type, f); });
  }

  template <bool Centered>
  void norm_forward(const float* x, const float* gain, const float* bias, values y, float* mean, float* rstd,
                    std::int64_t rows, std::int64_t columns, float epsilon) {
    run_as(y.type, [&]<class T>() {
      const norm_forward_body<Centered, T> body{x, nullptr, nullptr, gain, bias, as<T>(y), mean, rstd, columns, epsilon};
      return queue_.rows(rows, columns, body);
    });
  }
  template <bool Centered>
  void norm_gradient(const float* x, const float* gain, const float* mean, const float* rstd, const_values dy, float* dx,
                     bool accumulate, float* dgain, float* dbias, std::int64_t rows, std::int64_t columns) {
    run_as(dy.type, [&]<class T>() {
      const norm_backward_body<Centered, T> body{x, gain, mean, rstd, as<T>(dy), dx, accumulate, nullptr, rows, columns};
      return norm_backward(queue_, body, dgain, dbias);
    });
  }

  struct known_table {
    std::int64_t positions, head_size;
    double theta;
    kernels::rotary_scaling scaling;
    std::remove_cvref_t<decltype(std::declval<Q&>().template take<float>(1).value())> angles;
  };

  /// The cosines of a table and behind them the sines, in memory of the device.
  result<const float*> angles_of(const kernels::rotary_table& t) {
    for (const auto& k : tables_) {
      if (k.positions != t.positions() || k.head_size != t.head_size()) continue;
      if (k.theta == t.theta() && k.scaling == t.scaling()) return k.angles.data();
    }
    const auto count = static_cast<std::size_t>(t.positions() * (t.head_size() / 2));
    CAUSEWAY_ASSIGN(auto angles, queue_.template take<float>(2 * count));
    CAUSEWAY_TRY(queue_.copy_in(angles.data(), t.cosine(), count * sizeof(float)));
    CAUSEWAY_TRY(queue_.copy_in(angles.data() + count, t.sine(), count * sizeof(float)));
    tables_.push_back({t.positions(), t.head_size(), t.theta(), t.scaling(), std::move(angles)});
    return tables_.back().angles.data();
  }

  std::list<known_table> tables_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_COMPUTE_HPP
