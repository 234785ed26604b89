// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_TRAINER_HANDLE_HPP
#define CAUSEWAY_EXAMPLES_TRAINER_HANDLE_HPP

// A trainer of the program, whatever its policies are: sessions are written against this, and compiled once. One virtual
// call a step. Everything that the context knows is asked of the context.

#include <causeway/core/result.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/train/checkpoint.hpp>
#include <causeway/train/observer.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "chosen_policy.hpp"

namespace app {

class trainer_handle {
 public:
  using context = chosen_policy::context;

  virtual ~trainer_handle() = default;
  virtual context& ctx() = 0;
  virtual causeway::result<void> start() = 0;
  virtual causeway::result<causeway::step_report> step(const causeway::batch& b) = 0;
  virtual causeway::result<void> finish() = 0;
  virtual causeway::result<double> evaluate(const causeway::batch& b) = 0;
  virtual causeway::result<std::vector<causeway::io::section>> save() = 0;
  virtual causeway::result<void> restore(const causeway::io::section_file& file) = 0;
  /// Empty where the live parameters are all there is.
  [[nodiscard]] virtual std::span<const float> shared_parameters() = 0;
  /// Of the sequences of a step of all peers, this one's; none where all take equally many.
  [[nodiscard]] virtual std::optional<causeway::index_range> part_of_batch() = 0;

  /// What each peer counts in means from now on, where the policy weighs peers. Between rounds, on all peers alike.
  virtual void weigh(const std::vector<double>& weights) = 0;

  // Where peers come and go.

  /// Of a model of modules, the path that this peer trains, if it has one by now.
  [[nodiscard]] virtual std::optional<std::uint32_t> path() = 0;
  /// `to` gets the shared parameters of any path.
  virtual void parameters_of(std::uint32_t path, std::span<float> to) = 0;

  /// The loss of the shared parameters of a path, where peers hold stages of all of them.
  virtual causeway::result<double> evaluate_path(const causeway::batch& b, std::uint32_t path) = 0;

  /// The numbers of the next samples; none: the run's are used up.
  virtual causeway::result<std::vector<std::uint64_t>> draw(std::uint64_t count) = 0;
  /// Peers hold stages of the model, and make a step together.
  [[nodiscard]] virtual bool has_stages() const = 0;
  /// They move on their own between exchanges.
  [[nodiscard]] virtual bool alone_between() const = 0;
  /// Stages go from peer to peer, with what their optimizer keeps.
  [[nodiscard]] virtual bool moves_blocks() const = 0;
  /// That take part in the present round.
  [[nodiscard]] virtual std::uint32_t peers() = 0;
  /// Of the micro-batches of that step, those of each stage's peers; empty where nobody notes them.
  [[nodiscard]] virtual std::vector<std::uint32_t> shares(std::uint64_t step) = 0;
  /// How often a step went on without a peer that was lost.
  [[nodiscard]] virtual std::uint64_t resumed_attempts() = 0;
  /// In the next step this peer hands over what it holds. False: its policies do not know of that.
  virtual bool leave_next() = 0;
  /// Keeps the blocks of this peer's stage as they are after `step`. Only where `has_stages()`.
  virtual causeway::result<void> save_blocks(std::uint64_t step) = 0;
};

/// The handle of `trainer`, which must outlive it.
template <class Trainer>
class handle_of final : public trainer_handle {
 public:
  explicit handle_of(Trainer& trainer) : it_{trainer} {}

  context& ctx() override { return it_.context(); }
  causeway::result<void> start() override { return it_.start(); }
  causeway::result<causeway::step_report> step(const causeway::batch& b) override { return it_.step(b); }
  causeway::result<void> finish() override { return it_.finish(); }
  causeway::result<double> evaluate(const causeway::batch& b) override { return it_.evaluate(b); }
  causeway::result<std::vector<causeway::io::section>> save() override {
    return causeway::save_state(it_, causeway::io::archiver{});
  }
  causeway::result<void> restore(const causeway::io::section_file& file) override {
    return causeway::restore_state(it_, file, causeway::io::archiver{});
  }
  [[nodiscard]] std::span<const float> shared_parameters() override {
    if constexpr (requires { it_.comm().shared_parameters(); }) return it_.comm().shared_parameters();
    return {};
  }
  [[nodiscard]] std::optional<causeway::index_range> part_of_batch() override {
    if constexpr (Trainer::comm_type::traits.divides_batches) return it_.comm().part_of_batch();
    return {};
  }

  void weigh(const std::vector<double>& weights) override {
    if constexpr (requires { it_.comm().weigh(weights); }) it_.comm().weigh(weights);
  }

  [[nodiscard]] std::optional<std::uint32_t> path() override {
    if constexpr (requires { it_.comm().path(); }) return it_.comm().path();
    return {};
  }
  void parameters_of(std::uint32_t path, std::span<float> to) override {
    if constexpr (requires { it_.comm().parameters_of(path, to); }) it_.comm().parameters_of(path, to);
  }

  causeway::result<double> evaluate_path(const causeway::batch& b, std::uint32_t path) override {
    if constexpr (requires { it_.parallel().evaluate(ctx(), b, path); }) return it_.parallel().evaluate(ctx(), b, path);
    return it_.evaluate(b);
  }

  causeway::result<std::vector<std::uint64_t>> draw(std::uint64_t count) override { return it_.draw(count); }
  [[nodiscard]] bool has_stages() const override { return parallel.staged; }
  [[nodiscard]] bool alone_between() const override { return local; }
  [[nodiscard]] bool moves_blocks() const override { return parallel.moves_blocks; }
  [[nodiscard]] std::uint32_t peers() override {
    if constexpr (requires { it_.parallel().peers(); }) return it_.parallel().peers();
    return ctx().peers();
  }
  [[nodiscard]] std::vector<std::uint32_t> shares(std::uint64_t step) override {
    if constexpr (requires { it_.parallel().shares(step); }) return it_.parallel().shares(step);
    return {};
  }
  [[nodiscard]] std::uint64_t resumed_attempts() override {
    if constexpr (requires { it_.parallel().resumed_attempts(); }) return it_.parallel().resumed_attempts();
    return 0;
  }
  bool leave_next() override {
    if constexpr (requires { it_.parallel().leave_next(); }) {
      it_.parallel().leave_next();
      return true;
    }
    return false;
  }
  causeway::result<void> save_blocks(std::uint64_t step) override {
    if constexpr (requires { it_.parallel().save_blocks(ctx(), step, it_.comm().anchor(), {}); }) {
      if (local) return it_.parallel().save_blocks(ctx(), step, it_.comm().anchor(), of_paths());
    }
    if constexpr (requires { it_.parallel().save_blocks(ctx()); }) return it_.parallel().save_blocks(ctx());
    return {};
  }

 private:
  static constexpr auto parallel = std::remove_cvref_t<decltype(std::declval<Trainer&>().parallel())>::traits;
  static constexpr bool local = !Trainer::comm_type::traits.exchanges_gradients;

  // The shared parameters of all paths, where there are any.
  [[nodiscard]] std::vector<std::vector<float>> of_paths() {
    std::vector<std::vector<float>> all(it_.comm().paths(), std::vector<float>(ctx().parameters().size()));
    for (std::uint32_t p = 0; p < all.size(); ++p) it_.comm().parameters_of(p, all[p]);
    return all;
  }

  Trainer& it_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_TRAINER_HANDLE_HPP
