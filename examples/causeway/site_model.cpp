// SPDX-License-Identifier: Apache-2.0
#ifdef CAUSEWAY_HAS_MPI
#include "site_model.hpp"

#include <causeway/train/site_model.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace app {

using causeway::result;
using causeway::collective::mpi_site;

namespace {

struct shared_model final : chosen_model::face {
  using tokens = chosen_model::tokens;
  shared_model(chosen_model m, std::shared_ptr<mpi_site> site) : all{std::move(m), std::move(site)} {}

  causeway::parameter_store& parameters() override { return all.parameters(); }
  causeway::thread_pool& pool() override { return all.backend().pool(); }
  std::uint64_t config_hash() override { return all.config_hash(); }
  result<double> forward_backward(tokens inputs, tokens targets, std::int64_t sequences, float scale,
                                  std::uint64_t stream) override {
    return all.forward_backward(inputs, targets, sequences, scale, stream);
  }
  result<double> complete_gradients(double loss) override { return all.complete_gradients(loss); }
  result<double> evaluate(tokens inputs, tokens targets, std::int64_t sequences) override {
    return all.evaluate(inputs, targets, sequences);
  }
  result<std::string> sample(text_codec& codec, const settings& s, const text_sink& to) override {
    return own().sample(codec, s, to);
  }
  result<void> load(const std::string& folder) override { return own().load(folder); }
  causeway::formats::model_options options() override { return own().options(); }
  std::int64_t context_length() override { return own().context_length(); }
  std::string computes_on() override {
    return own().computes_on() + ", at each of " + std::to_string(all.site().size()) + " ranks of this site";
  }
  causeway::nn::memory_estimate memory_estimate(std::int64_t sequences) override {
    return own().memory_estimate(std::max<std::int64_t>(1, sequences / all.site().size()));
  }
  std::int64_t blocks() override { return own().blocks(); }
  std::int64_t width() override { return own().width(); }
  const causeway::nn::model_part& part() override { return own().part(); }
  std::size_t tied_table() override { return own().tied_table(); }
  bool shares_table() override { return own().shares_table(); }
  causeway::parameter_store declared_parameters() override { return own().declared_parameters(); }

  chosen_model& own() { return all.model(); }
  causeway::site_model<chosen_model> all;
};

}  // namespace

chosen_model make_site_model(chosen_model model, std::shared_ptr<mpi_site> site) {
  return chosen_model{std::make_unique<shared_model>(std::move(model), std::move(site))};
}

result<void> serve_site(mpi_site& site, chosen_model& model) {
  return causeway::serve_site(static_cast<causeway::collective::site&>(site), model);
}

result<void> dismiss_site(mpi_site& site) { return causeway::dismiss_site(static_cast<causeway::collective::site&>(site)); }

}  // namespace app
#endif
