// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_ROW_MODEL_HPP
#define CAUSEWAY_TESTS_CUDA_ROW_MODEL_HPP

// A model whose gradients have the same bits on an engine and on the processor, so that whole runs of any policy can be
// compared: every token pulls all parameters toward its own centre. It has the parameters of a little transformer, and its
// arithmetic is that of rows, so the host touches nothing of it.

#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway_test {

/// Threads, and nothing a kernels::Backend has.
class host_threads {
 public:
  [[nodiscard]] causeway::thread_pool& pool() noexcept { return pool_; }
  [[nodiscard]] causeway::kernels::host_rows rows() noexcept { return causeway::kernels::host_rows{pool_}; }
  [[nodiscard]] static causeway::memory_source source() noexcept { return {}; }

 private:
  causeway::thread_pool pool_{1};
};

/// Backend: host_threads or cuda::backend.
template <class Backend>
class row_model {
 public:
  static constexpr std::size_t tokens = 5;

  template <class... Args>
  explicit row_model(std::in_place_t, Args&&... of_backend)
      : backend_{std::make_unique<Backend>(std::forward<Args>(of_backend)...)} {
    using causeway::parameter_kind;
    store_.add("table", parameter_kind::embedding, 64, 40);
    for (int b = 0; b < 4; ++b) {
      store_.add("block" + std::to_string(b) + ".matrix", parameter_kind::matrix, 48, 33, b);
      store_.add("block" + std::to_string(b) + ".bias", parameter_kind::vector, 1, 33, b);
    }
    store_.add("norm", parameter_kind::vector, 1, 40, 4);
    store_.allocate(backend_->source());
    fill(store_.values(), 1);
    const auto length = static_cast<std::size_t>(store_.length());
    for (std::size_t t = 0; t < tokens; ++t) {
      centres_.emplace_back(length, backend_->source());
      fill(centres_.back().span(), 2 + t);
    }
    pull_ = causeway::aligned_buffer<float>{length, backend_->source()};
  }

  causeway::parameter_store& parameters() { return store_; }
  [[nodiscard]] std::uint64_t config_hash() const { return store_.layout_hash(); }
  Backend& backend() { return *backend_; }

  causeway::result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t>,
                                            std::int64_t, float scale, std::uint64_t) {
    const auto rows = backend_->rows();
    for (const std::int32_t t : inputs) {
      CAUSEWAY_TRY(rows.subtract(pull_.span(), store_.values(), centres_[static_cast<std::size_t>(t)].span()));
      CAUSEWAY_TRY(rows.add(store_.gradients(), scale, pull_.span()));
    }
    return 0.0;
  }
  causeway::result<double> evaluate(std::span<const std::int32_t>, std::span<const std::int32_t>, std::int64_t) {
    return 0.0;
  }

 private:
  // Padding stays zero.
  void fill(std::span<float> row, std::uint64_t seed) {
    causeway::rng draw{seed};
    for (const auto& s : store_.segments()) {
      for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) row[static_cast<std::size_t>(i)] = draw.normal();
    }
  }

  std::unique_ptr<Backend> backend_;
  causeway::parameter_store store_;
  std::vector<causeway::aligned_buffer<float>> centres_;
  causeway::aligned_buffer<float> pull_;
};
static_assert(causeway::Model<row_model<host_threads>> && causeway::Model<row_model<causeway::cuda::backend>>);

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_ROW_MODEL_HPP
