// SPDX-License-Identifier: Apache-2.0
#ifdef CAUSEWAY_HAS_MPI
#include "site_model.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace app {

using causeway::result;
using causeway::collective::mpi_site;

namespace {

using tokens = chosen_model::tokens;

enum class task : std::uint64_t {
  leave,
  parameters,  ///< take them: they have changed since the last pass
  gradients,   ///< of one micro-batch, everybody's share of it
  sum          ///< all gradients since the last sum
};

/// What the first rank says before each of these. Sent as it lies in memory: the ranks of a job run one program.
struct order {
  task what = task::leave;
  std::int64_t sequences = 0;
  std::int64_t length = 0;  ///< tokens of the micro-batch
  std::uint64_t stream = 0;
  float scale = 0;
  std::uint32_t first = 0;  ///< 1: gradients start at zero
};

// A broadcast moves bits, whatever they mean.
result<void> tell(mpi_site& site, void* data, std::size_t bytes) {
  static_assert(sizeof(order) % sizeof(float) == 0 && sizeof(std::int32_t) == sizeof(float));
  return site.broadcast(0, {static_cast<float*>(data), bytes / sizeof(float)});
}

/// The sequences of this rank, of those of all.
struct share {
  std::int64_t first = 0, count = 0;
  [[nodiscard]] tokens of(const std::vector<std::int32_t>& all, std::int64_t sequences) const {
    const auto each = static_cast<std::int64_t>(all.size()) / sequences;
    return tokens{all}.subspan(static_cast<std::size_t>(first * each), static_cast<std::size_t>(count * each));
  }
};
share share_of_rank(const mpi_site& site, std::int64_t sequences) {
  const std::int64_t n = site.size(), r = site.rank();
  const std::int64_t begin = sequences * r / n, end = sequences * (r + 1) / n;
  return {begin, end - begin};
}

/// A rank's part of a step.
class site_step {
 public:
  site_step(mpi_site& site, chosen_model& model) : site_{site}, model_{model} {}

  result<void> take_parameters() { return site_.broadcast(0, model_.parameters().values()); }

  /// This rank's share of a micro-batch, added to its gradients; gives the sum of its losses. One that fails is remembered
  /// until all sum up.
  result<double> compute(const order& o, std::vector<std::int32_t>& inputs, std::vector<std::int32_t>& targets) {
    CAUSEWAY_TRY(tell(site_, inputs.data(), inputs.size() * sizeof(std::int32_t)));
    CAUSEWAY_TRY(tell(site_, targets.data(), targets.size() * sizeof(std::int32_t)));
    if (o.first != 0) computed_ = {};
    const share mine = share_of_rank(site_, o.sequences);
    if (mine.count == 0 || !computed_) return 0.0;
    auto loss = model_.forward_backward(mine.of(inputs, o.sequences), mine.of(targets, o.sequences), mine.count, o.scale,
                                        o.stream + site_.rank());
    if (!loss) computed_ = loss.error();
    return loss;
  }

  /// Afterwards the gradients are the sum of all ranks', and so is what is returned, of their losses in their order.
  result<double> sum(double loss) {
    CAUSEWAY_ASSIGN(const bool all, site_.all_of(computed_.has_value()));
    if (!computed_) return computed_.error();
    if (!all) {
      return causeway::fail(causeway::errc::peer_lost, "site",
                            "another rank of it could not compute; its own error says why");
    }
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

  mpi_site& site_;
  chosen_model& model_;
  result<void> computed_{};
};

struct site_model final : chosen_model::face {
  site_model(chosen_model m, std::shared_ptr<mpi_site> s) : model{std::move(m)}, site{std::move(s)}, step{*site, model} {}

  causeway::parameter_store& parameters() override { return model.parameters(); }
  causeway::thread_pool& pool() override { return model.backend().pool(); }
  std::uint64_t config_hash() override { return model.config_hash(); }
  result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                  std::uint64_t stream) override {
    if (sent != model.parameters().version()) {
      CAUSEWAY_TRY(ask({.what = task::parameters}));
      CAUSEWAY_TRY(step.take_parameters());
      sent = model.parameters().version();
    }
    CAUSEWAY_TRY(ask({task::gradients, sequences, static_cast<std::int64_t>(inputs.size()), stream, scale,
                      std::exchange(first, false) ? 1U : 0U}));
    in.assign(inputs.begin(), inputs.end());
    out.assign(targets.begin(), targets.end());
    auto loss = step.compute(in_order, in, out);
    first = !loss;
    return loss;
  }
  result<double> complete_gradients(double loss) override {
    first = true;
    CAUSEWAY_TRY(ask({.what = task::sum}));
    return step.sum(loss);
  }
  result<void> ask(const order& o) {
    in_order = o;
    return tell(*site, &in_order, sizeof in_order);
  }
  result<double> evaluate(tokens inputs, tokens targets, std::int64_t sequences) override {
    return model.evaluate(inputs, targets, sequences);
  }
  result<std::string> sample(text_codec& codec, const settings& s, const text_sink& to) override {
    return model.sample(codec, s, to);
  }
  result<void> load(const std::string& folder) override { return model.load(folder); }
  causeway::formats::model_options options() override { return model.options(); }
  std::int64_t context_length() override { return model.context_length(); }
  std::string computes_on() override {
    return model.computes_on() + ", at each of " + std::to_string(site->size()) + " ranks of this site";
  }
  causeway::nn::memory_estimate memory_estimate(std::int64_t sequences) override {
    return model.memory_estimate(std::max<std::int64_t>(1, sequences / site->size()));
  }
  std::int64_t blocks() override { return model.blocks(); }
  std::int64_t width() override { return model.width(); }
  const causeway::nn::model_part& part() override { return model.part(); }
  std::size_t tied_table() override { return model.tied_table(); }

  chosen_model model;
  std::shared_ptr<mpi_site> site;
  site_step step;
  order in_order{};
  std::uint64_t sent = 0;  ///< the version of the parameters that all ranks have
  bool first = true;       ///< micro-batch of a step
  std::vector<std::int32_t> in, out;
};

}  // namespace

chosen_model make_site_model(chosen_model model, std::shared_ptr<mpi_site> site) {
  return chosen_model{std::make_unique<site_model>(std::move(model), std::move(site))};
}

result<void> serve_site(mpi_site& site, chosen_model& model) {
  std::vector<std::int32_t> inputs, targets;
  site_step step{site, model};
  double loss = 0;
  for (;;) {
    order o;
    CAUSEWAY_TRY(tell(site, &o, sizeof o));
    switch (o.what) {
      case task::leave: return {};
      case task::parameters:
        CAUSEWAY_TRY(step.take_parameters());
        model.parameters().touch();
        break;
      case task::gradients:
        if (o.first != 0) {
          loss = 0;
          std::fill(model.parameters().gradients().begin(), model.parameters().gradients().end(), 0.0F);
        }
        inputs.resize(static_cast<std::size_t>(o.length));
        targets.resize(static_cast<std::size_t>(o.length));
        if (const auto computed = step.compute(o, inputs, targets)) loss += *computed;
        break;
      case task::sum: CAUSEWAY_TRY(step.sum(loss)); break;
    }
  }
}

result<void> dismiss_site(mpi_site& site) {
  order o;
  return tell(site, &o, sizeof o);
}

}  // namespace app
#endif
