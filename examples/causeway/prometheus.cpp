// SPDX-License-Identifier: Apache-2.0
#include "prometheus.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>

namespace app {
namespace {

std::string number(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "+Inf" : "-Inf";
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.15g", v);
  return digits;
}

class exposition {
 public:
  explicit exposition(const run_records& run) : run_{run} {}

  void family(const std::string& name, const char* type, const char* help) {
    name_ = "causeway_" + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void sample(const std::string& labels, double value) {
    text_ += name_ + (labels.empty() ? "" : "{" + labels + "}") + " " + number(value) + "\n";
  }
  void each_peer(const std::string& name, const char* type, const char* help,
                 const std::function<double(const peer_figures&)>& value, const std::string& more = "") {
    if (more.empty() || last_ != name) family(name, type, help);
    last_ = name;
    for (const auto& [index, p] : run_.peers()) sample(more + "peer=\"" + std::to_string(index) + "\"", value(p));
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  const run_records& run_;
  std::string text_;
  std::string name_;
  std::string last_;
};

void put_states(exposition& out, const run_records& run) {
  double running = 0;
  double ended = 0;
  double gone = 0;
  for (const auto& [index, p] : run.peers()) (p.running ? running : p.ended ? ended : gone) += 1;
  out.family("peers", "gauge", "Peers of this machine, by what they do.");
  out.sample("state=\"running\"", running);
  out.sample("state=\"finished\"", ended);
  out.sample("state=\"gone\"", gone);
  out.family("peer_deaths_total", "counter", "Peers that died, as who started them saw it.");
  out.sample("", static_cast<double>(run.deaths()));
}

}  // namespace

std::string to_prometheus(const run_records& run) {
  exposition out{run};
  put_states(out, run);
  const auto each = [&](const char* name, const char* type, const char* help, auto value) {
    out.each_peer(name, type, help, [value](const peer_figures& p) { return static_cast<double>(value(p)); });
  };
  each("inner_step_total", "counter", "Inner steps of the newest state.", [](const auto& p) { return p.step; });
  each("outer_step_total", "counter", "Outer rounds committed.", [](const auto& p) { return p.round; });
  each("tokens_total", "counter", "Tokens trained on.", [](const auto& p) { return p.tokens; });
  each("compute_seconds_total", "counter", "Spent in forward, backward and optimizer.",
       [](const auto& p) { return p.compute_seconds; });
  each("exposed_comm_seconds_total", "counter", "Blocked in exchanges, while nothing was computed.",
       [](const auto& p) { return p.exchange_seconds; });
  const char* const bytes = "Bytes on the sockets, headers included.";
  out.each_peer(
      "exchange_bytes_total", "counter", bytes, [](const peer_figures& p) { return p.bytes_sent; }, "direction=\"sent\",");
  out.each_peer(
      "exchange_bytes_total", "counter", bytes, [](const peer_figures& p) { return p.bytes_received; },
      "direction=\"received\",");
  each("warnings_total", "counter", "Warnings and errors that peers wrote down.", [](const auto& p) { return p.warnings; });
  each("peer_starts_total", "counter", "Processes that the peer has had.", [](const auto& p) { return p.starts; });
  each("tokens_per_second", "gauge", "Speed of the peer in its last round.",
       [](const auto& p) { return p.tokens_per_second; });
  each("loss", "gauge", "Training loss of the last step, in nats per token.", [](const auto& p) { return p.loss; });
  each("validation_loss", "gauge", "Newest validation loss that the peer knows, in nats per token; 0: none yet.",
       [](const auto& p) { return p.validation; });
  return out.text();
}

}  // namespace app
