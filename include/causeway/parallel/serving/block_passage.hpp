// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_BLOCK_PASSAGE_HPP
#define CAUSEWAY_PARALLEL_SERVING_BLOCK_PASSAGE_HPP

// Some sequences on their way through all blocks of a model and back, over servers that may be lost at any moment (Petals:
// Borzunov et al., 2022). What went into each hop is kept until the way back has passed it. So a lost server costs what it
// was computing: its blocks are asked of others, from the input that went into it. A state machine without network and
// clock.

#include <causeway/config/config.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/tensor_mailbox.hpp>
#include <causeway/stage/block_routing.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

class block_passage {
 public:
  /// Before the first of `layers` blocks; `x`: the encoded rows that go into it.
  CAUSEWAY_DECL block_passage(std::int64_t layers, shared_bytes x);

  /// What to ask next of hop.server: the gradient (`backward`), else the output.
  struct question {
    stage::span_hop hop{};
    bool backward = false;
    shared_bytes x{};
    shared_bytes dy{};  ///< of a backward
  };

  /// Behind the last block, or, after `turn_back`, before the first again.
  [[nodiscard]] bool arrived() const noexcept { return backward_ ? goal_ == 0 : at_ == layers_; }
  /// What came out last: rows behind the last block, or their gradient before the first.
  [[nodiscard]] const shared_bytes& outcome() const noexcept { return backward_ ? dy_ : x_; }
  /// Blocks for which a chain is needed before `next`; none (of size 0) where the next hop is known.
  [[nodiscard]] nn::block_range unrouted() const noexcept { return {at_, goal_}; }

  /// The way back begins: `dy`, the encoded gradient of what came out. Precondition: arrived.
  CAUSEWAY_DECL void turn_back(shared_bytes dy);

  /// `chain` goes through `unrouted()`. On the way back the last hop of it is not asked for its output, which is not
  /// needed.
  CAUSEWAY_DECL [[nodiscard]] question next(const stage::span_chain& chain);

  /// The output of the hop that `next` named.
  CAUSEWAY_DECL void took_output(const stage::span_hop& asked, shared_bytes y);
  /// The gradient of its input.
  CAUSEWAY_DECL void took_gradient(shared_bytes dx);
  /// Who was asked for a gradient does not answer: another chain is needed, from what went into it.
  CAUSEWAY_DECL void lost_gradient();

 private:
  struct hop {
    stage::span_hop where;
    shared_bytes x;  // what went into it
  };

  CAUSEWAY_DECL void pass(const stage::span_hop& where, shared_bytes y);

  std::int64_t layers_;
  std::int64_t at_ = 0;  // x_ goes into this block
  std::int64_t goal_;    // of the way forward: the end, or where dy_ is
  bool backward_ = false;
  std::vector<hop> hops_;  // to be gone back
  shared_bytes x_, dy_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/serving/impl/block_passage.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SERVING_BLOCK_PASSAGE_HPP
