// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_SITE_MODEL_HPP
#define CAUSEWAY_TRAIN_SITE_MODEL_HPP

// A model that the members of a site compute together: the ranks of an MPI job, machines of a rack. Member 0 has the run:
// its policy, its optimizers, its checkpoints, its peers. The others have the model alone: they get the parameters when
// these have changed, and the sequences of each micro-batch; after the last one of a step all gradients are added up, once.
// So they hold nothing that could be lost or be another than it should, and whatever trains one process trains a site: any
// communication policy between sites, whatever carries it.

#include <causeway/collective/site.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/model.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

enum class site_task : std::uint64_t {
  leave,
  parameters,  ///< take them: they have changed since the last pass
  gradients,   ///< of one micro-batch, everybody's share of it
  sum          ///< all gradients since the last sum
};

/// What member 0 says before each of these. Sent as it lies in memory: the members run one program.
struct site_order {
  site_task what = site_task::leave;
  std::int64_t sequences = 0;
  std::int64_t length = 0;  ///< tokens of the micro-batch
  std::uint64_t stream = 0;
  float scale = 0;
  std::uint32_t first = 0;  ///< 1: gradients start at zero
};

// A broadcast moves bits, whatever they mean.
inline result<void> tell_site(collective::site& site, void* data, std::size_t bytes) {
  static_assert(sizeof(site_order) % sizeof(float) == 0 && sizeof(std::int32_t) == sizeof(float));
  return site.broadcast(0, {static_cast<float*>(data), bytes / sizeof(float)});
}

/// A member's part of a step.
template <Model M>
class site_step {
 public:
  site_step(collective::site& site, M& model) : site_{site}, model_{model} {}

  result<void> take_parameters() { return site_.broadcast(0, model_.parameters().values()); }

  /// This member's share of a micro-batch, added to its gradients; gives the sum of its losses. One that fails is
  /// remembered until all sum up.
  result<double> compute(const site_order& o, std::vector<std::int32_t>& inputs, std::vector<std::int32_t>& targets) {
    CAUSEWAY_TRY(tell_site(site_, inputs.data(), inputs.size() * sizeof(std::int32_t)));
    CAUSEWAY_TRY(tell_site(site_, targets.data(), targets.size() * sizeof(std::int32_t)));
    if (o.first != 0) computed_ = {};
    const std::int64_t n = site_.size(), r = site_.rank();
    const std::int64_t first = o.sequences * r / n, count = o.sequences * (r + 1) / n - first;
    if (count == 0 || !computed_) return 0.0;
    const auto each = static_cast<std::int64_t>(inputs.size()) / o.sequences;
    const auto begin = static_cast<std::size_t>(first * each), size = static_cast<std::size_t>(count * each);
    auto loss = model_.forward_backward(std::span<const std::int32_t>{inputs}.subspan(begin, size),
                                        std::span<const std::int32_t>{targets}.subspan(begin, size), count, o.scale,
                                        o.stream + site_.rank());
    if (!loss) computed_ = loss.error();
    return loss;
  }

  /// Afterwards the gradients are the sum of all members', and so is what is returned, of their losses in their order.
  result<double> sum(double loss) {
    CAUSEWAY_ASSIGN(const bool all, site_.all_of(computed_.has_value()));
    if (!computed_) return computed_.error();
    if (!all) return fail(errc::peer_lost, "site", "another rank of it could not compute; its own error says why");
    CAUSEWAY_TRY(site_.sum(model_.parameters().gradients()));
    return sum_of_losses(loss);
  }

 private:
  /// Three f32 hold all bits of an f64. Everybody adds zeros to those of the others, so nothing is rounded.
  result<double> sum_of_losses(double loss) {
    constexpr std::size_t parts = 3;
    std::vector<float> all(parts * site_.size(), 0.0F);
    for (float& part : std::span{all}.subspan(parts * site_.rank(), parts)) {
      part = static_cast<float>(loss);
      loss = std::isfinite(part) ? loss - static_cast<double>(part) : 0.0;
    }
    CAUSEWAY_TRY(site_.sum(all));
    double sum = 0;
    for (std::size_t r = 0; r < all.size(); r += parts) {
      sum += (static_cast<double>(all[r + 2]) + static_cast<double>(all[r + 1])) + static_cast<double>(all[r]);
    }
    return sum;
  }

  collective::site& site_;
  M& model_;
  result<void> computed_{};
};

}  // namespace detail

/// Models Model, for member 0; meanwhile the others call `serve_site`. A micro-batch is cut by sequences. Equal to the
/// model alone but for the order of sums: with two members and one micro-batch, equal to the bit to one process with two
/// micro-batches that are added apart (parallel::data_parallel_options), if there is no dropout. After an error of the site
/// its members no longer agree on what comes next.
template <Model M>
class site_model {
 public:
  site_model(M model, std::shared_ptr<collective::site> site)
      : it_{std::make_unique<state>(std::move(model), std::move(site))} {}

  [[nodiscard]] M& model() noexcept { return it_->model; }
  [[nodiscard]] const collective::site& site() const noexcept { return *it_->site; }
  parameter_store& parameters() { return it_->model.parameters(); }
  decltype(auto) backend() { return it_->model.backend(); }
  [[nodiscard]] std::uint64_t config_hash() { return it_->model.config_hash(); }

  result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                                  std::int64_t sequences, float scale, std::uint64_t stream) {
    state& s = *it_;
    const std::uint64_t version = parameters().version();
    if (s.sent != version) {
      CAUSEWAY_TRY(ask({.what = detail::site_task::parameters}));
      CAUSEWAY_TRY(s.step.take_parameters());
      s.sent = version;
    }
    CAUSEWAY_TRY(ask({detail::site_task::gradients, sequences, static_cast<std::int64_t>(inputs.size()), stream, scale,
                      std::exchange(s.first, false) ? 1U : 0U}));
    s.inputs.assign(inputs.begin(), inputs.end());
    s.targets.assign(targets.begin(), targets.end());
    auto loss = s.step.compute(s.order, s.inputs, s.targets);
    s.first = !loss;
    return loss;
  }
  result<double> complete_gradients(double loss) {
    it_->first = true;
    CAUSEWAY_TRY(ask({.what = detail::site_task::sum}));
    return it_->step.sum(loss);
  }
  /// By this member alone.
  result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets,
                          std::int64_t sequences) {
    return it_->model.evaluate(inputs, targets, sequences);
  }

 private:
  struct state {
    state(M m, std::shared_ptr<collective::site> s) : model{std::move(m)}, site{std::move(s)} {}

    M model;
    std::shared_ptr<collective::site> site;
    detail::site_step<M> step{*site, model};
    detail::site_order order{};
    std::uint64_t sent = 0;  ///< the version of the parameters that all members have
    bool first = true;       ///< micro-batch of a step
    std::vector<std::int32_t> inputs{}, targets{};
  };

  result<void> ask(const detail::site_order& o) {
    it_->order = o;
    return detail::tell_site(*it_->site, &it_->order, sizeof o);
  }

  std::unique_ptr<state> it_;
};

/// For the members but the first: computes with `model`, which is built as that one's, until `dismiss_site`.
template <Model M>
result<void> serve_site(collective::site& site, M& model) {
  std::vector<std::int32_t> inputs, targets;
  detail::site_step<M> step{site, model};
  double loss = 0;
  for (;;) {
    detail::site_order o;
    CAUSEWAY_TRY(detail::tell_site(site, &o, sizeof o));
    switch (o.what) {
      case detail::site_task::leave: return {};
      case detail::site_task::parameters:
        CAUSEWAY_TRY(step.take_parameters());
        model.parameters().touch();
        break;
      case detail::site_task::gradients:
        if (o.first != 0) {
          loss = 0;
          std::fill(model.parameters().gradients().begin(), model.parameters().gradients().end(), 0.0F);
        }
        inputs.resize(static_cast<std::size_t>(o.length));
        targets.resize(static_cast<std::size_t>(o.length));
        if (const auto computed = step.compute(o, inputs, targets)) loss += *computed;
        break;
      case detail::site_task::sum: CAUSEWAY_TRY(step.sum(loss)); break;
    }
  }
}

/// By member 0, when the run is over.
inline result<void> dismiss_site(collective::site& site) {
  detail::site_order o;
  return detail::tell_site(site, &o, sizeof o);
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_SITE_MODEL_HPP
