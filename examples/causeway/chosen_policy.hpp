// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_POLICY_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_POLICY_HPP

// A communication policy that is chosen when the program runs: one trainer type then does for all of them. Each is
// compiled once, for the context of the program's trainers. One virtual call a hook.

#include <causeway/core/thread_pool.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/context.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "chosen_inner.hpp"
#include "chosen_model.hpp"

namespace app {

/// Movable; made from any communication policy.
class chosen_policy {
 public:
  using context = causeway::training_context<chosen_model, chosen_inner>;

  struct face {
    virtual ~face() = default;
    virtual causeway::result<void> start(context& ctx) = 0;
    [[nodiscard]] virtual bool trains(context& ctx) const = 0;
    /// Of the sequences of a step of all peers, this one's; none where all take equally many.
    [[nodiscard]] virtual std::optional<causeway::index_range> part_of_batch() const = 0;
    /// Gradients, by `pass`, where the policy looks ahead.
    virtual causeway::result<double> compute(context& ctx, const std::function<causeway::result<double>()>& pass) = 0;
    virtual causeway::result<void> before_inner_step(context& ctx) = 0;
    virtual causeway::result<void> after_inner_step(context& ctx) = 0;
    virtual causeway::result<void> finish(context& ctx) = 0;
    /// What each peer counts in means from now on, where the policy weighs peers.
    virtual void weigh(const std::vector<double>& weights) = 0;
    virtual void serialize(causeway::io::output_archive& ar) = 0;
    virtual void serialize(causeway::io::input_archive& ar) = 0;
    /// Empty where the live parameters are all there is.
    [[nodiscard]] virtual std::span<const float> shared_parameters() const = 0;
    /// What all peers held alike after the last exchange, where they move on their own between exchanges.
    [[nodiscard]] virtual std::span<const float> anchor() const = 0;
    // Where peers come and go.
    virtual void shared(causeway::membership::image_collector& ar) = 0;
    virtual void adopt(context& ctx, std::span<const float> previous) = 0;
    virtual causeway::result<void> catch_up(context& ctx) = 0;
    virtual causeway::result<void> replay(context& ctx) = 0;
    virtual void stand_by(context& ctx) = 0;
    [[nodiscard]] virtual std::function<void()> meanwhile(context& ctx) = 0;
    virtual causeway::result<void> admit(context& ctx) = 0;
    /// Of a model of modules: how many paths there are, and the one that this peer trains, if it has one by now.
    [[nodiscard]] virtual std::size_t paths() const = 0;
    [[nodiscard]] virtual std::optional<std::uint32_t> path() const = 0;
    /// Of hubs of hubs: how many regions pipelines share out.
    [[nodiscard]] virtual std::size_t regions() const = 0;
    virtual bool follow(context& ctx, std::optional<std::uint32_t> path) = 0;
    /// `to` gets the shared parameters of any path, or region.
    virtual void parameters_of(std::uint32_t path, std::span<float> to) = 0;
    // And blocks move.
    [[nodiscard]] virtual std::vector<causeway::parameter_row> block_rows() = 0;
    virtual causeway::result<void> divide(context& ctx, std::span<const causeway::parameter_segment> before) = 0;
    [[nodiscard]] virtual std::vector<std::span<std::byte>> memory() = 0;
    virtual causeway::result<void> forget(context& ctx) = 0;
    [[nodiscard]] virtual bool exchanges_next() = 0;
    [[nodiscard]] virtual std::vector<std::size_t> parts_for(const std::vector<double>& speeds) = 0;
    [[nodiscard]] virtual std::optional<bool> row_waits() = 0;
    virtual causeway::result<void> meet_holders(context& ctx, const causeway::parallel::block_holders& who) = 0;
    /// Of gradients whose rows go in parts: one like it that has not begun; of others none.
    [[nodiscard]] virtual chosen_policy another() const = 0;
  };

  chosen_policy() = default;
  template <class P>
  explicit chosen_policy(P policy) : traits_{P::traits}, it_{std::make_unique<held<P>>(std::move(policy))} {}

  [[nodiscard]] const causeway::comm_traits& traits() const noexcept { return traits_; }
  [[nodiscard]] face& it() const noexcept { return *it_; }

 private:
  template <class P>
  struct held final : face {
    explicit held(P p) : policy{std::move(p)} {}

    causeway::result<void> start(context& ctx) override { return policy.start(ctx); }
    [[nodiscard]] bool trains(context& ctx) const override {
      if constexpr (P::traits.draws_peers) return policy.trains(ctx);
      return true;
    }
    [[nodiscard]] std::optional<causeway::index_range> part_of_batch() const override {
      if constexpr (P::traits.divides_batches) return policy.part_of_batch();
      return {};
    }
    causeway::result<double> compute(context& ctx, const std::function<causeway::result<double>()>& pass) override {
      if constexpr (P::traits.looks_ahead) return policy.compute(ctx, pass);
      return pass();
    }
    causeway::result<void> before_inner_step(context& ctx) override { return policy.before_inner_step(ctx); }
    causeway::result<void> after_inner_step(context& ctx) override { return policy.after_inner_step(ctx); }
    causeway::result<void> finish(context& ctx) override { return policy.finish(ctx); }
    void weigh(const std::vector<double>& weights) override {
      if constexpr (requires { policy.group().weights; }) policy.group().weights = weights;
    }
    void serialize(causeway::io::output_archive& ar) override { policy.serialize(ar); }
    void serialize(causeway::io::input_archive& ar) override { policy.serialize(ar); }
    [[nodiscard]] std::span<const float> shared_parameters() const override {
      if constexpr (requires { policy.shared_parameters(); }) return policy.shared_parameters();
      return {};
    }
    [[nodiscard]] std::span<const float> anchor() const override {
      if constexpr (requires { policy.anchor(); }) return policy.anchor();
      return shared_parameters();
    }
    void shared(causeway::membership::image_collector& ar) override {
      if constexpr (elastic) policy.shared(ar);
    }
    void adopt(context& ctx, std::span<const float> previous) override {
      if constexpr (elastic) policy.adopt(ctx, previous);
    }
    causeway::result<void> catch_up(context& ctx) override {
      if constexpr (elastic) return policy.catch_up(ctx);
      return {};
    }
    causeway::result<void> replay(context& ctx) override {
      if constexpr (P::traits.replays) return policy.replay(ctx);
      return {};
    }
    void stand_by(context& ctx) override {
      if constexpr (P::traits.talks_between) policy.stand_by(ctx);
    }
    [[nodiscard]] std::function<void()> meanwhile(context& ctx) override {
      if constexpr (P::traits.talks_between) return policy.meanwhile(ctx);
      return {};
    }
    causeway::result<void> admit(context& ctx) override {
      if constexpr (P::traits.trains_paths) return policy.admit(ctx);
      return {};
    }
    [[nodiscard]] std::size_t paths() const override {
      if constexpr (P::traits.trains_paths) return policy.paths();
      return 0;
    }
    [[nodiscard]] std::optional<std::uint32_t> path() const override {
      if constexpr (P::traits.trains_paths) return policy.path();
      return {};
    }
    [[nodiscard]] std::size_t regions() const override {
      if constexpr (P::traits.in_regions) return policy.regions();
      return 0;
    }
    bool follow(context& ctx, std::optional<std::uint32_t> path) override {
      if constexpr (follows) return policy.follow(ctx, path);
      return false;
    }
    void parameters_of(std::uint32_t path, std::span<float> to) override {
      if constexpr (follows) policy.parameters_of(path, to);
    }
    [[nodiscard]] std::vector<causeway::parameter_row> block_rows() override {
      if constexpr (P::traits.moves_with_blocks) return policy.block_rows();
      return {};
    }
    causeway::result<void> divide(context& ctx, std::span<const causeway::parameter_segment> before) override {
      if constexpr (P::traits.moves_with_blocks) return policy.divide(ctx, before);
      return {};
    }
    [[nodiscard]] std::vector<std::span<std::byte>> memory() override {
      if constexpr (P::traits.moves_with_blocks) return policy.memory();
      return {};
    }
    causeway::result<void> forget(context& ctx) override {
      if constexpr (P::traits.moves_with_blocks) return policy.forget(ctx);
      return {};
    }
    [[nodiscard]] std::optional<bool> row_waits() override {
      if constexpr (P::traits.moves_with_blocks) return policy.row_waits();
      return {};
    }
    [[nodiscard]] bool exchanges_next() override {
      if constexpr (P::traits.moves_with_blocks) return policy.exchanges_next();
      return false;
    }
    [[nodiscard]] std::vector<std::size_t> parts_for(const std::vector<double>& speeds) override {
      if constexpr (P::traits.divides_batches) return policy.parts_for(speeds);
      return {};
    }
    causeway::result<void> meet_holders(context& ctx, const causeway::parallel::block_holders& who) override {
      if constexpr (P::traits.talks_between) return policy.meet_holders(ctx, who);
      return {};
    }
    [[nodiscard]] chosen_policy another() const override {
      if constexpr (P::traits.rows_in_parts && P::traits.exchanges_gradients) return chosen_policy{policy.another()};
      return {};
    }

    static constexpr bool elastic = P::traits.tolerates == causeway::peers::elastic;
    static constexpr bool follows = P::traits.trains_paths || P::traits.in_regions;
    P policy;
  };

  causeway::comm_traits traits_;
  std::unique_ptr<face> it_;
};

/// The same as the policy of a trainer. `Traits` must be what a trainer has to know of the one that it holds; whether that
/// keeps replicas alike is not: the session sees to it that peers go on from one round where they have rounds.
template <causeway::comm_traits Traits>
class chosen_comm {
 public:
  static constexpr std::string_view name = "policy";  // "comm.policy" in checkpoints, whichever it is
  static constexpr causeway::comm_traits traits = [] {
    causeway::comm_traits of_any = Traits;
    of_any.identical_replicas = false;
    const bool may = !(Traits.exchanges_gradients && Traits.rows_in_parts);  // gradients in parts have none of these
    of_any.trains_paths = of_any.in_regions = of_any.replays = may;
    of_any.looks_ahead = may || Traits.looks_ahead;
    of_any.draws_peers = of_any.divides_batches = of_any.talks_between = may;
    return of_any;
  }();
  static constexpr std::uint32_t state_version = 1;

  chosen_comm() = default;
  explicit chosen_comm(chosen_policy policy) : policy_{std::move(policy)} {}

  causeway::result<void> start(auto& ctx) { return policy_.it().start(ctx); }
  [[nodiscard]] bool trains(auto& ctx) const { return policy_.it().trains(ctx); }
  [[nodiscard]] std::optional<causeway::index_range> part_of_batch() const { return policy_.it().part_of_batch(); }
  causeway::result<double> compute(auto& ctx, const auto& pass) { return policy_.it().compute(ctx, pass); }
  causeway::result<void> before_inner_step(auto& ctx) { return policy_.it().before_inner_step(ctx); }
  causeway::result<void> after_inner_step(auto& ctx) { return policy_.it().after_inner_step(ctx); }
  causeway::result<void> finish(auto& ctx) { return policy_.it().finish(ctx); }
  void weigh(const std::vector<double>& weights) { policy_.it().weigh(weights); }
  void serialize(auto& ar) { policy_.it().serialize(ar); }
  [[nodiscard]] std::span<const float> shared_parameters() const { return policy_.it().shared_parameters(); }
  [[nodiscard]] std::span<const float> anchor() const { return policy_.it().anchor(); }
  void shared(auto& ar) { policy_.it().shared(ar); }
  void adopt(auto& ctx, std::span<const float> previous) { policy_.it().adopt(ctx, previous); }
  causeway::result<void> catch_up(auto& ctx) { return policy_.it().catch_up(ctx); }
  [[nodiscard]] bool replays() const { return policy_.traits().replays; }
  causeway::result<void> replay(auto& ctx) { return policy_.it().replay(ctx); }
  void stand_by(auto& ctx) { policy_.it().stand_by(ctx); }
  [[nodiscard]] std::function<void()> meanwhile(auto& ctx) { return policy_.it().meanwhile(ctx); }
  causeway::result<void> admit(auto& ctx) { return policy_.it().admit(ctx); }
  [[nodiscard]] std::size_t paths() const { return policy_.it().paths(); }
  [[nodiscard]] std::optional<std::uint32_t> path() const { return policy_.it().path(); }
  [[nodiscard]] std::size_t regions() const { return policy_.it().regions(); }
  bool follow(auto& ctx, std::optional<std::uint32_t> path) { return policy_.it().follow(ctx, path); }
  void parameters_of(std::uint32_t path, std::span<float> to) { policy_.it().parameters_of(path, to); }
  [[nodiscard]] std::vector<causeway::parameter_row> block_rows() { return policy_.it().block_rows(); }
  causeway::result<void> divide(auto& ctx, std::span<const causeway::parameter_segment> before) {
    return policy_.it().divide(ctx, before);
  }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() { return policy_.it().memory(); }
  causeway::result<void> forget(auto& ctx) { return policy_.it().forget(ctx); }
  [[nodiscard]] bool exchanges_next() { return policy_.it().exchanges_next(); }
  [[nodiscard]] std::vector<std::size_t> parts_for(const std::vector<double>& speeds) {
    return policy_.it().parts_for(speeds);
  }
  [[nodiscard]] std::optional<bool> row_waits() { return policy_.it().row_waits(); }
  causeway::result<void> meet_holders(auto& ctx, const auto& who) { return policy_.it().meet_holders(ctx, who); }
  [[nodiscard]] chosen_comm another() const { return chosen_comm{policy_.it().another()}; }

 private:
  chosen_policy policy_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_POLICY_HPP
