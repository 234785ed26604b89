// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_EMBEDDING_BASE_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_EMBEDDING_BASE_HPP

// What all stages know of the embedding, so that it need not travel: the tables that the run began with, less what the
// activation codec carries. A table that is trained within the codec's subspace keeps this part for good, so a run that is
// resumed gets the same, up to rounding, and nothing of it is state. Peers of a fixed set get it from the first of them,
// whatever the tables began with; where peers come and go, each makes it from the model's seed, for nobody may be there to
// ask.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/embedding.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/parallel/pipeline/pipeline_exchange.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

class embedding_base {
 public:
  [[nodiscard]] bool empty() const noexcept { return tokens_.empty(); }

  /// Rank 0's tables, as `codec` leaves them, to all ranks; all call. Bytes: the tables, 4 a value, along the ranks;
  /// memory: as many on each. errc::invalid_argument for models with dropout, which writes into the residual stream what
  /// neither side can know.
  template <class Model, stage::UsesBase Codec>
  result<void> share(collective::group_view& view, thread_pool& pool, Model& model, Codec& codec,
                     const pipeline_exchange& exchange) {
    CAUSEWAY_TRY(begin(model, Codec::name));
    if (view.self() == 0) {
      tokens_ = table(model, model.embedding().tokens);
      positions_ = table(model, model.embedding().positions);
      CAUSEWAY_TRY(codec.leave_outside(pool, width_, tokens_));
      if (!positions_.empty()) CAUSEWAY_TRY(codec.leave_outside(pool, width_, positions_));
    }
    std::uint64_t positions = positions_.size();
    CAUSEWAY_TRY(
        collective::broadcast(view, exchange.on(detail::base_kind), 0, std::span{&positions, 1}, exchange.options));
    const auto expected = static_cast<std::uint64_t>(limits_.context * width_);
    if (positions != 0 && positions != expected) {
      return fail(errc::protocol, "rank 0", "it sent a table of positions of another size");
    }
    tokens_.resize(static_cast<std::size_t>(limits_.vocabulary * width_));
    positions_.resize(static_cast<std::size_t>(positions));
    CAUSEWAY_TRY(collective::broadcast(view, exchange.on(detail::base_kind + 1), 0, std::span{tokens_}, exchange.options));
    return collective::broadcast(view, exchange.on(detail::base_kind + 2), 0, std::span{positions_}, exchange.options);
  }

  /// The tables that the model began with, as `codec` leaves them; nothing where it reads no base. Asks nobody: all peers
  /// must have initialised their models with one seed (`agreement()`), and tables that are here must have begun so, too.
  /// Time and memory: model.initial_embedding(). errc::invalid_argument as share, and for tables that began otherwise.
  template <class Model, stage::ActivationCodec Codec>
  result<void> make(thread_pool& pool, Model& model, Codec& codec) {
    if constexpr (stage::UsesBase<Codec>) {
      if (!stage::needs_base(codec)) return {};
      CAUSEWAY_TRY(begin(model, Codec::name));
      nn::embedding_values began = model.initial_embedding();
      hasher h;
      h.add(std::as_bytes(std::span{began.tokens})).add(std::as_bytes(std::span{began.positions}));
      agreement_ = h.finish();
      const auto here = model.embedding();
      CAUSEWAY_ASSIGN(tokens_, outside(pool, codec, std::move(began.tokens), table(model, here.tokens)));
      CAUSEWAY_ASSIGN(positions_, outside(pool, codec, std::move(began.positions), table(model, here.positions)));
    }
    return {};
  }

  /// Of what `make` made: equal on peers whose models began alike, on every machine; 0 where there is nothing.
  [[nodiscard]] std::uint64_t agreement() const noexcept { return agreement_; }

  /// The base of a micro-batch, [tokens, width] into `out`. errc::invalid_argument for tokens that are none.
  CAUSEWAY_DECL result<void> rows(thread_pool& pool, const batch& b, std::span<float> out) const;

  /// The same as the base of a micro-batch's crossing, in `room`; gradients have none, nor has anything if this is empty.
  CAUSEWAY_DECL result<void> add_to(stage::crossing& c, thread_pool& pool, const batch& b, std::vector<float>& room) const;

 private:
  template <class Model>
  result<void> begin(Model& model, std::string_view codec) {
    if (model.dropout() > 0) {
      return fail(errc::invalid_argument, std::string{codec},
                  "a model with dropout, which leaves the subspace that all stages share; set it to 0");
    }
    width_ = model.width();
    limits_ = {"pipeline", model.context_length(), model.vocabulary()};
    return {};
  }

  // `began` as the codec leaves it. `now`, if it is here, has moved along the codec's subspace alone.
  template <class Codec>
  result<std::vector<float>> outside(thread_pool& pool, Codec& codec, std::vector<float> began,
                                     std::vector<float> now) const {
    if (!now.empty()) {
      std::transform(now.begin(), now.end(), began.begin(), now.begin(), std::minus<>{});
      CAUSEWAY_TRY(codec.leave_outside(pool, width_, now));
      CAUSEWAY_TRY(check_moved(pool, began, now, Codec::name));
    }
    if (!began.empty()) CAUSEWAY_TRY(codec.leave_outside(pool, width_, began));
    return began;
  }
  CAUSEWAY_DECL static result<void> check_moved(thread_pool& pool, std::span<const float> began,
                                                std::span<const float> outside, std::string_view codec);

  template <class Model>
  static std::vector<float> table(Model& model, std::size_t segment) {
    if (segment == nn::not_held) return {};
    const float* const values = model.parameters().value(segment);
    return {values, values + model.parameters().segments()[segment].size()};
  }

  std::vector<float> tokens_, positions_;  // [vocabulary, width]; [context, width] or none
  std::int64_t width_ = 0;
  nn::token_limits limits_;
  std::uint64_t agreement_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/pipeline/impl/embedding_base.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_PIPELINE_EMBEDDING_BASE_HPP
