// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_EXPERT_LAYER_HPP
#define CAUSEWAY_PARALLEL_EXPERTS_EXPERT_LAYER_HPP

// A layer whose parameters lie on other peers (the decentralised mixture of experts of Learning@home: Ryabinin and Gusev,
// NeurIPS 2020). A gate chooses a few experts for each row among those that have announced themselves, the rows travel to
// their hosts, and y = Σ w·f(x) over the experts that answered in time. A backward brings each expert its rows again; who
// does not answer then is not trained this time, and its part of the gradient is missing.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/parallel/experts/expert_client.hpp>
#include <causeway/parallel/experts/expert_host.hpp>
#include <causeway/stage/expert_directory.hpp>
#include <causeway/stage/product_key_gate.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// The experts of one layer among those of all. Refers to `all`.
class layer_directory {
 public:
  layer_directory(const stage::expert_directory& all, const stage::expert_grid& grid, std::uint32_t layer)
      : all_{all}, grid_{grid}, layer_{layer} {}
  [[nodiscard]] const stage::expert_grid& grid() const noexcept { return grid_; }
  CAUSEWAY_DECL void extensions(stage::expert_id prefix, std::size_t axis, std::vector<std::uint32_t>& out) const;

 private:
  const stage::expert_directory& all_;
  const stage::expert_grid& grid_;
  std::uint64_t layer_;
};
static_assert(stage::ExpertDirectory<layer_directory>);

/// A micro-batch between its forward and its backward.
struct expert_pass {
  std::vector<float> x;
  stage::expert_choices choices;         ///< numbers within the layer
  std::vector<stage::expert_id> expert;  ///< of each choice, in the whole mixture
  std::vector<std::size_t> row;          ///< of each choice
  std::vector<std::uint8_t> answered;    ///< of each choice
  std::vector<float> weights;            ///< of each choice
  std::vector<float> outputs;            ///< of each choice, `width` values; zeros where it did not answer
};

/// One thread. Bytes for each row and expert: 4 · width there and back in a forward, twice as many there in a backward.
class expert_layer {
 public:
  /// `client` outlives the layer. errc::invalid_argument for a gate that cannot work or a layer that is none.
  CAUSEWAY_DECL static result<expert_layer> create(expert_client& client, const stage::product_key_options& gate = {},
                                                   std::uint32_t layer = 0);

  /// y = Σ w·f(x) for x [rows, width]; zero for rows of which no expert answered. errc::timeout where that is all of them:
  /// nobody is there to be trained.
  CAUSEWAY_DECL result<expert_pass> forward(thread_pool& pool, std::span<const float> x, std::span<float> y);

  /// dx ← the gradient by x where dy is that by y; adds to the gate's gradients. Experts move by themselves.
  CAUSEWAY_DECL result<void> backward(thread_pool& pool, const expert_pass& pass, std::span<const float> dy,
                                      std::span<float> dx);

  [[nodiscard]] stage::product_key_gate& gate() noexcept { return gate_; }
  /// Rows whose backward an expert did not answer.
  [[nodiscard]] std::uint64_t lost_backwards() const noexcept { return lost_; }

 private:
  CAUSEWAY_DECL expert_layer(expert_client& client, const stage::expert_grid& grid, std::uint32_t layer,
                             stage::product_key_gate gate);

  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(client_->mixture().width); }

  CAUSEWAY_DECL result<void> choose(thread_pool& pool, expert_pass& pass);

  expert_client* client_;
  stage::expert_grid grid_;
  std::uint64_t layer_;
  stage::product_key_gate gate_;
  std::uint64_t lost_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/experts/impl/expert_layer.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_EXPERTS_EXPERT_LAYER_HPP
