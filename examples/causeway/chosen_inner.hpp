// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_INNER_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_INNER_HPP

// An inner optimizer chosen at run time, so that the program needs no trainer type per optimizer.

#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/basis_rotation.hpp>
#include <causeway/optim/dion.hpp>
#include <causeway/optim/divisible.hpp>
#include <causeway/optim/lamb.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/optim/nadam.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/snoo.hpp>
#include <causeway/optim/sparse_steps.hpp>
#include <causeway/stage/subspace_adamw.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/stage/subspace_pieces.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace app {

/// Its state says which optimizer's it is. Reading that of another one makes it the other one: ask `check` afterwards.
class chosen_inner {
 public:
  static constexpr std::string_view name = "optimizer";  // "inner.optimizer" in checkpoints, whichever it is

  /// `outer` is SNOO's. Dion's matrices come from the policy of that name.
  explicit chosen_inner(std::string_view which = "adamw", float weight_decay = 0.1F,
                        causeway::optim::snoo_options outer = {})
      : wanted_{number_of(which)}, weight_decay_{weight_decay}, outer_{outer} {
    become(wanted_);
  }
  /// AdamW that keeps a model in a subspace of its residual stream.
  chosen_inner(float weight_decay, causeway::stage::subspace_basis basis)
      : wanted_{number_of("subspace_adamw")}, weight_decay_{weight_decay}, basis_{std::move(basis)} {
    become(wanted_);
  }

  void reset(std::int64_t length) {
    become(wanted_);
    std::visit([length](auto& o) { o.reset(length); }, it_);
  }
  void step(causeway::thread_pool& pool, causeway::parameter_view view, causeway::optim::step_options options) {
    std::visit([&](auto& o) { o.step(pool, view, options); }, it_);
  }

  /// None where the optimizer's state cannot be divided: `validate` lets none of those train stages that move.
  [[nodiscard]] std::vector<std::span<float>> moments() {
    return std::visit(
        [](auto& o) -> std::vector<std::span<float>> {
          if constexpr (causeway::optim::Divisible<std::remove_reference_t<decltype(o)>>) {
            const auto all = o.moments();
            return {all.begin(), all.end()};
          }
          return {};
        },
        it_);
  }
  void resume(std::int64_t length, std::uint64_t steps) {
    reset(length);
    std::visit(
        [&](auto& o) {
          if constexpr (causeway::optim::Divisible<std::remove_reference_t<decltype(o)>>) o.resume(length, steps);
        },
        it_);
  }

  /// After reading a state: whether it was that of the optimizer that was chosen.
  [[nodiscard]] causeway::result<void> check() const {
    if (held_ == wanted_) return {};
    const std::string theirs = held_ < names.size() ? std::string{names[held_]} : "another optimizer";
    return causeway::fail(causeway::errc::wrong_model, "train.optimizer",
                          "the checkpoint has the state of " + theirs + ", not of " + std::string{names[wanted_]} +
                              "; use the optimizer that the run had, or start over with --run.fresh");
  }

  template <class Archive>
  void serialize(Archive& ar) {
    ar(held_);
    if (held_ != it_.index()) become(held_);
    std::visit([&ar](auto& o) { o.serialize(ar); }, it_);
  }

 private:
  using any = std::variant<causeway::optim::adamw, causeway::optim::muon<>, causeway::optim::sgd, causeway::optim::snoo<>,
                           causeway::optim::dion, causeway::optim::nadam, causeway::optim::basis_rotation<>,
                           causeway::stage::subspace_adamw, causeway::optim::lamb, causeway::optim::sparse_sgd,
                           causeway::optim::sparse_adam>;
  static constexpr std::array<std::string_view, 11> names{
      // in checkpoints
      "adamw",          "muon",           "sgd",  "snoo",       "dion",       "nadam",
      "basis_rotation", "subspace_adamw", "lamb", "sparse_sgd", "sparse_adam"};
  static_assert(names.size() == std::variant_size_v<any>);

  static std::uint8_t number_of(std::string_view which) {
    const auto* const found = std::find(names.begin(), names.end(), which);
    return found == names.end() ? std::uint8_t{0} : static_cast<std::uint8_t>(std::distance(names.begin(), found));
  }

  void become(std::uint8_t number) {
    held_ = number;
    if (number == 0) it_ = causeway::optim::adamw{{.weight_decay = weight_decay_}};
    if (number == 1) it_ = causeway::optim::muon<>{};
    if (number == 2) it_ = causeway::optim::sgd{{.weight_decay = weight_decay_}};
    if (number == 3) {
      it_ = causeway::optim::snoo<>{outer_, causeway::optim::adamw{{.weight_decay = weight_decay_}}};
    }
    if (number == 4) it_ = causeway::optim::dion{{.adamw = {.weight_decay = weight_decay_}, .given = true}};
    if (number == 5) it_ = causeway::optim::nadam{{.weight_decay = weight_decay_}};
    if (number == 6) it_ = causeway::optim::basis_rotation<>{{.weight_decay = weight_decay_}};
    if (number == 7) {
      it_ = causeway::stage::subspace_adamw{basis_, causeway::stage::residual_writers(), {.weight_decay = weight_decay_}};
    }
    if (number == 8) it_ = causeway::optim::lamb{{.weight_decay = weight_decay_}};
    if (number == 9) it_ = causeway::optim::sparse_sgd{{.weight_decay = weight_decay_}};
    if (number == 10) it_ = causeway::optim::sparse_adam{{.weight_decay = weight_decay_}};
  }

  std::uint8_t wanted_;
  std::uint8_t held_ = 0;
  float weight_decay_;
  causeway::optim::snoo_options outer_{};
  causeway::stage::subspace_basis basis_{};
  any it_;
};
static_assert(causeway::optim::Optimizer<chosen_inner> && causeway::optim::Divisible<chosen_inner>);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_INNER_HPP
