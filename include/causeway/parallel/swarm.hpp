// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_HPP
#define CAUSEWAY_PARALLEL_SWARM_HPP

// A model cut into stages, each served by several peers with the same weights, which come and go: every micro-batch takes
// its own path, and what a lost peer had is computed by another of its stage.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/pipeline/embedding_base.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/parallel/swarm/swarm_peer.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

namespace detail {

/// The stage that a context's model holds, over one batch.
template <class Context, class Codec>
class stage_computer final : public swarm_computer {
 public:
  stage_computer(Context& ctx, Codec& codec, const batch& whole, std::int64_t micro_batches, nn::pass_kind kind,
                 const embedding_base& base)
      : ctx_{ctx},
        codec_{codec},
        base_{base},
        whole_{whole},
        sequences_{whole.sequences / micro_batches},
        kind_{kind},
        range_{ctx.model().part().ranges(ctx.model().blocks()).front()} {}

  [[nodiscard]] std::size_t most_bytes(const swarm_crossing& c) const override { return codec_.most_bytes(crossing_of(c)); }

  result<void> take_in(const swarm_crossing& c, const boundary_bytes& bytes) override {
    stage::crossing crossing = crossing_of(c);
    CAUSEWAY_TRY(base_.add_to(crossing, ctx_.pool(), piece_of(c.micro_batch), base_rows_));
    tape_type& tape = unit_of(c.micro_batch).tape;
    input_ = tape.make(dtype::f32, {crossing.rows, crossing.width});
    CAUSEWAY_TRY(codec_.decode(ctx_.pool(), crossing, *bytes, input_.template span<float>()));
    return check_finite(input_, "what came");
  }

  result<swarm_output> forward(const swarm_crossing& output) override {
    const std::uint32_t m = output.micro_batch;
    unit& u = unit_of(m);
    u.input = std::exchange(input_, {});
    if (waits_for_backward()) return swarm_output{};
    CAUSEWAY_TRY(pass_forward(u, m));
    CAUSEWAY_TRY(check_loss(u, m));
    swarm_output out{u.pass.loss, nullptr};
    CAUSEWAY_ASSIGN(out.bytes, encoded(output, u.pass.output.value));
    u.pass.output.value.reset();
    if (kind_ != nn::pass_kind::recorded) forget(m);
    return out;
  }

  result<swarm_output> backward(const swarm_crossing& d_input) override {
    unit& u = units_.at(d_input.micro_batch);
    if (waits_for_backward()) CAUSEWAY_TRY(pass_forward(u, d_input.micro_batch));
    CAUSEWAY_TRY(check_loss(u, d_input.micro_batch));
    CAUSEWAY_ASSIGN(const tensor d, ctx_.model().backward_stage(u.tape, u.pass, std::exchange(input_, {})));
    swarm_output out{u.pass.loss, nullptr};
    CAUSEWAY_ASSIGN(out.bytes, encoded(d_input, d));
    forget(d_input.micro_batch);
    return out;
  }

  [[nodiscard]] std::span<float> gradients() override { return ctx_.gradients(); }
  [[nodiscard]] double squares() override {
    const auto g = gradients();
    const auto table = range_.last == ctx_.model().blocks() ? std::span<float>{} : table_in(ctx_.model(), g);
    if (table.empty()) return squares_of(g);
    const auto from = static_cast<std::size_t>(table.data() - g.data());
    const double all = squares_of(g.first(from)) + squares_of(g.subspan(from + table.size()));
    return std::isfinite(squares_of(table)) ? all : HUGE_VAL;  // what the last stage could not add is seen here
  }

  void forget(std::uint32_t m) override {
    const auto known = units_.find(m);
    if (known == units_.end()) return;
    known->second.tape.clear();
    units_.erase(known);
  }
  void replace_parameters(const std::function<void(std::span<float>)>& values) override {
    values(ctx_.parameters());
    ctx_.parameters_changed();
  }
  result<void> take_step(float scale) override {
    const auto g = gradients();
    kernels::scale(ctx_.pool(), g.data(), scale, static_cast<std::int64_t>(g.size()));
    ctx_.contribution().add_late(static_cast<std::uint64_t>(std::llround(static_cast<float>(whole_.sequences) / scale)));
    if (ctx_.contribution().gathers_gradients()) return {};  // the policy adds it to what it has gathered
    return ctx_.inner_step(ctx_.own_norm());                 // other stages take no step with it
  }

 private:
  using tape_type = typename std::remove_cvref_t<decltype(std::declval<Context&>().model())>::tape_type;
  struct unit {
    tape_type tape;
    nn::stage_pass pass;
    tensor input{};  // until the forward
  };

  // A model adds the output layer's gradient when it has the loss, in the forward. A micro-batch whose forward was here may
  // have its backward elsewhere, or be here for a neighbour's sake: so the last stage makes both passes at once.
  [[nodiscard]] bool waits_for_backward() const {
    return kind_ == nn::pass_kind::recorded && range_.last == ctx_.model().blocks();
  }
  result<void> pass_forward(unit& u, std::uint32_t m) {
    const batch piece = piece_of(m);
    const float scale = kind_ == nn::pass_kind::recorded ? 1.0F / static_cast<float>(whole_.tokens()) : 0.0F;
    const nn::micro_batch b{piece.inputs, piece.targets, sequences_, scale, mix(ctx_.step(), m, 0x737761726D)};
    CAUSEWAY_ASSIGN(u.pass, ctx_.model().forward_stage(u.tape, range_, b, std::exchange(u.input, {}), kind_));
    return {};
  }

  [[nodiscard]] double squares_of(std::span<const float> part) {
    const double norm = ctx_.norm_of(part);
    return norm * norm;
  }

  unit& unit_of(std::uint32_t m) {
    const auto known = units_.find(m);
    if (known != units_.end()) return known->second;
    return units_.emplace(m, unit{ctx_.model().make_tape(), {}, {}}).first->second;
  }
  // Equal on both sides, whoever they are.
  [[nodiscard]] stage::crossing crossing_of(const swarm_crossing& c) const {
    const auto way = c.backward ? stage::direction::backward : stage::direction::forward;
    return {.edge = c.edge,
            .way = way,
            .rows = whole_.length() * sequences_,
            .width = ctx_.model().width(),
            .sequences = sequences_,
            .seed = mix(ctx_.step(), c.micro_batch, mix(c.edge, static_cast<std::uint64_t>(way)))};
  }

  [[nodiscard]] batch piece_of(std::uint32_t micro_batch) const {
    return whole_.slice(micro_batch * sequences_, sequences_);
  }

  // Nothing of nothing: at the model's ends no tensor crosses.
  result<boundary_bytes> encoded(const swarm_crossing& c, const tensor& t) {
    if (!t) return boundary_bytes{};
    CAUSEWAY_TRY(check_finite(t, "what micro-batch " + std::to_string(c.micro_batch) + " came to"));
    stage::crossing crossing = crossing_of(c);
    CAUSEWAY_TRY(base_.add_to(crossing, ctx_.pool(), piece_of(c.micro_batch), base_rows_));
    auto bytes = std::make_shared<std::vector<std::byte>>(codec_.most_bytes(crossing));
    CAUSEWAY_ASSIGN(const std::size_t used, codec_.encode(ctx_.pool(), crossing, t.template span<float>(), *bytes));
    bytes->resize(used);
    return boundary_bytes{std::move(bytes)};
  }

  static result<void> check_loss(const unit& u, std::uint32_t m) {
    if (std::isfinite(u.pass.loss)) return {};
    return fail(errc::non_finite, "swarm", "the loss of micro-batch " + std::to_string(m) + " is not finite");
  }
  static result<void> check_finite(const tensor& t, const std::string& what) {
    const auto values = t.span<float>();
    if (std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) return {};
    return fail(errc::non_finite, "swarm", what + " has values that are not finite");
  }

  Context& ctx_;
  Codec& codec_;
  const embedding_base& base_;
  const batch& whole_;
  std::int64_t sequences_;
  nn::pass_kind kind_;
  nn::block_range range_;
  tensor input_;                  // of what is computed next
  std::vector<float> base_rows_;  // of the crossing that is coded
  std::map<std::uint32_t, unit> units_;
};

/// Whether this peer, with that model and environment, can be one of a swarm; then it joins the others. `base` is made.
template <class Context, class Codec>
result<void> open_swarm(std::string_view name, Context& ctx, swarm_peer* peer, Codec& codec, embedding_base& base) {
  const std::string who{name};
  if (peer == nullptr || !ctx.elastic()) {
    return fail(errc::invalid_argument, who,
                "it needs its peer and a membership; make a swarm_peer, and a swarm_group for environment::group");
  }
  const swarm_options& o = peer->options();
  if (o.stages < 1 || o.stages > swarm_wire::most_stages || o.stage >= o.stages || o.micro_batches < 1 ||
      o.micro_batches > swarm_wire::most_micro_batches) {
    return fail(errc::invalid_argument, who, "stage, stages or micro_batches is out of range");
  }
  const auto ranges = ctx.model().part().ranges(ctx.model().blocks());
  if (ranges.size() != 1 || (ranges[0].first == 0) != (o.stage == 0) ||
      (ranges[0].last == ctx.model().blocks()) != (o.stage + 1 == o.stages)) {
    return fail(errc::invalid_argument, who, "the model's part is not that of stage " + std::to_string(o.stage));
  }
  if (o.stages > 1 && ctx.model().tied_table() != nn::not_held) {
    const auto flat = ctx.parameters();
    const auto table = table_in(ctx.model(), flat);
    peer->tie({.offset = static_cast<std::size_t>(table.data() - flat.data()),
               .length = table.size(),
               .parameters = [&ctx] { return ctx.parameters(); },
               .step = [&ctx] { return ctx.step(); }});
  }
  CAUSEWAY_TRY(base.make(ctx.pool(), ctx.model(), codec));
  peer->open(mix(ctx.model().config_hash(), codec.agreement(), base.agreement()));
  return {};
}

/// As swarm::evaluate.
template <class Context>
result<double> evaluate_in_swarm(std::string_view name, Context& ctx, swarm_peer& peer, const batch& b,
                                 std::optional<std::uint32_t> path = {}) {
  const std::int64_t pieces = std::gcd(b.sequences, peer.options().micro_batches);
  CAUSEWAY_TRY(check_batch(name, b, pieces));
  stage::plain exact;
  const embedding_base none;
  stage_computer<Context, stage::plain> computer{ctx, exact, b, pieces, nn::pass_kind::evaluation, none};
  CAUSEWAY_ASSIGN(const double sum, peer.evaluate(ctx.step(), static_cast<std::uint32_t>(pieces), computer, path));
  return sum / static_cast<double>(b.tokens());
}

}  // namespace detail

/// SWARM (Ryabinin et al., ICML 2023), synchronous: the gradient of a step is that of the mean loss over the global batch,
/// whoever computed which part of it and whoever was lost. Every peer of every stage is given the same global batch (the
/// first stage reads the inputs, the last the targets), as a function of trainer.context().step(). Needs an environment
/// whose group is a train::swarm_group over the same swarm_peer, fault::quorum and a communication policy of global steps.
///
/// comm::every_step without a codec adds the peers' gradients up. Any other policy of gradients (rule C5) makes a row of
/// each peer's, the mean over its micro-batches, and exchanges the mean of the rows weighted by them, with its codec and
/// what it keeps; then the table below is not tied.
///
/// Activations and their gradients cross through `Codec`, one that remembers nothing: what a micro-batch comes to must not
/// depend on who computed the one before. With stage::plain the result is that of the unsplit model up to the order of
/// sums.
///
/// Where the output layer is the token table (Press and Wolf, EACL 2017), the last stage steps on the whole table's
/// gradient, and the first takes the table over: the same bits at both ends after every step. The first stage's optimizer
/// keeps no moments of it. A peer that has taken its last step must stay until the others have, as they may lack what it
/// has.
///
/// Bytes per micro-batch and boundary: what the codec makes of [tokens, width], forth and back, straight between the two
/// peers. A tied table crosses once a step to the last stage, and once to each peer of the first, 4 bytes a value. Memory:
/// activations of the micro-batches under way; encoded outputs and input gradients of all of the peer's in the step; the
/// gradient twice more; at either end a tied table once more.
template <stage::ActivationCodec Codec = stage::plain>
class swarm {
  static_assert(!Codec::traits.stateful && !Codec::traits.needs_samples,
                "causeway-P6: micro-batches of a swarm go through other peers every time, which cannot know what a codec "
                "with a memory remembers; use stage::plain, another stage::coded or stage::subspace. "
                "docs/reference/rules.md#p6");

 public:
  static constexpr std::string_view name = "swarm";
  static constexpr parallel_traits traits{.staged = true, .reroutes = true, .global_step = true, .shares_gradient = true};
  static constexpr std::uint32_t state_version = 1;

  explicit swarm(std::shared_ptr<swarm_peer> peer = nullptr, Codec codec = Codec{})
      : peer_{std::move(peer)}, codec_{std::move(codec)} {}

  result<void> start(auto& ctx) {
    if constexpr (has_stages<std::remove_cvref_t<decltype(ctx.model())>>()) {
      if (peer_ != nullptr && peer_->options().local_steps > 0) {
        return fail(errc::invalid_argument, "swarm", "its peers are to take local steps; use parallel::local_swarm");
      }
      return detail::open_swarm(name, ctx, peer_.get(), codec_, base_);
    }
    return {};  // the refusal is the only error
  }

  result<double> forward_backward(auto& ctx, const batch& b) {
    const std::int64_t n = peer_->options().micro_batches;
    CAUSEWAY_TRY(check_batch(name, b, n));
    using context_type = std::remove_cvref_t<decltype(ctx)>;
    whole_ = std::make_shared<batch>(b);
    computer_ = std::make_shared<detail::stage_computer<context_type, Codec>>(ctx, codec_, *whole_, n,
                                                                              nn::pass_kind::recorded, base_);
    CAUSEWAY_ASSIGN(const double sum, peer_->run(ctx.step(), *computer_));
    return sum / static_cast<double>(b.tokens());
  }

  /// Of the whole model, as the membership agreed on it.
  result<float> norm(auto& ctx) {
    if (ctx.entry().nobody_counts()) ctx.skip_inner_step();
    return peer_->norm();
  }
  result<void> after_step(auto& ctx) {
    if (peer_->put_table()) ctx.parameters_changed();
    return {};
  }

  /// Every peer of every stage calls it with the same batch, as often before the same step, and gets the same mean. Any
  /// number of sequences; boundaries cross as f32, whatever the codec. errc::cancelled where the others are through with it
  /// and its result is lost, as for a peer that comes back: train on.
  result<double> evaluate(auto& ctx, const batch& b) { return detail::evaluate_in_swarm(name, ctx, *peer_, b); }

  void serialize(auto&) {}

  /// For the environment's swarm_group.
  [[nodiscard]] const std::shared_ptr<swarm_peer>& peer() const noexcept { return peer_; }
  [[nodiscard]] Codec& codec() noexcept { return codec_; }

 private:
  std::shared_ptr<swarm_peer> peer_;
  Codec codec_;
  embedding_base base_;  // empty where the codec reads none
  std::shared_ptr<batch> whole_;
  std::shared_ptr<swarm_computer> computer_;
};
static_assert(ParallelismPolicy<swarm<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_HPP
