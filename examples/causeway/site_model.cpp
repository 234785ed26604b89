// SPDX-License-Identifier: Apache-2.0
#ifdef CAUSEWAY_HAS_MPI
#include "site_model.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace app {

using causeway::result;
using causeway::collective::mpi_site;

namespace {

using tokens = chosen_model::tokens;

enum class task : std::uint64_t { leave, gradients };

/// What the first rank says before each pass. Sent as it lies in memory: the ranks of a job run one program.
struct order {
  task what = task::leave;
  std::int64_t sequences = 0;
  std::int64_t length = 0;  ///< tokens of the micro-batch
  std::uint64_t stream = 0;
  float scale = 0;
  float unused = 0;
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

/// Everybody's part of one pass: afterwards the first rank's gradients are the sum of all, and so is what is returned.
result<double> compute(mpi_site& site, chosen_model& model, const order& o, std::vector<std::int32_t>& inputs,
                       std::vector<std::int32_t>& targets) {
  CAUSEWAY_TRY(tell(site, inputs.data(), inputs.size() * sizeof(std::int32_t)));
  CAUSEWAY_TRY(tell(site, targets.data(), targets.size() * sizeof(std::int32_t)));
  CAUSEWAY_TRY(site.broadcast(0, model.parameters().values()));
  if (site.rank() > 0) std::fill(model.parameters().gradients().begin(), model.parameters().gradients().end(), 0.0F);
  const share mine = share_of_rank(site, o.sequences);
  result<double> loss = 0.0;
  if (mine.count > 0) {
    loss = model.forward_backward(mine.of(inputs, o.sequences), mine.of(targets, o.sequences), mine.count, o.scale,
                                  o.stream + site.rank());
  }
  CAUSEWAY_ASSIGN(const bool all, site.all_of(loss.has_value()));
  if (!loss) return loss;
  if (!all)
    return causeway::fail(causeway::errc::peer_lost, "site",
                          "another rank of it could not compute; its own error says why");
  CAUSEWAY_TRY(site.sum(model.parameters().gradients()));
  std::array<float, 2> parts{static_cast<float>(*loss), 0};  // what the first cannot hold is in the second
  parts[1] = static_cast<float>(*loss - static_cast<double>(parts[0]));
  CAUSEWAY_TRY(site.sum(parts));
  return static_cast<double>(parts[0]) + static_cast<double>(parts[1]);
}

struct site_model final : chosen_model::face {
  site_model(chosen_model m, std::shared_ptr<mpi_site> s) : model{std::move(m)}, site{std::move(s)} {}

  causeway::parameter_store& parameters() override { return model.parameters(); }
  causeway::thread_pool& pool() override { return model.backend().pool(); }
  std::uint64_t config_hash() override { return model.config_hash(); }
  result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                  std::uint64_t stream) override {
    order o{task::gradients, sequences, static_cast<std::int64_t>(inputs.size()), stream, scale};
    CAUSEWAY_TRY(tell(*site, &o, sizeof o));
    in.assign(inputs.begin(), inputs.end());
    out.assign(targets.begin(), targets.end());
    return compute(*site, model, o, in, out);
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
  std::vector<std::int32_t> in, out;
};

}  // namespace

chosen_model make_site_model(chosen_model model, std::shared_ptr<mpi_site> site) {
  return chosen_model{std::make_unique<site_model>(std::move(model), std::move(site))};
}

result<void> serve_site(mpi_site& site, chosen_model& model) {
  std::vector<std::int32_t> inputs, targets;
  for (;;) {
    order o;
    CAUSEWAY_TRY(tell(site, &o, sizeof o));
    if (o.what == task::leave) return {};
    inputs.resize(static_cast<std::size_t>(o.length));
    targets.resize(static_cast<std::size_t>(o.length));
    CAUSEWAY_TRY(compute(site, model, o, inputs, targets));
  }
}

result<void> dismiss_site(mpi_site& site) {
  order o;
  return tell(site, &o, sizeof o);
}

}  // namespace app
#endif
