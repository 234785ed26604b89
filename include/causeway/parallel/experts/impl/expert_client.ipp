// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_CLIENT_IPP
#define CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_CLIENT_IPP

#include <causeway/parallel/experts/expert_client.hpp>

#include <algorithm>
#include <numeric>
#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<std::unique_ptr<expert_client>> expert_client::create(std::shared_ptr<net::fabric> fabric,
                                                                           expert_client_options options) {
  const expert_mixture_options& m = options.mixture;
  if (m.width < 1 || 2 * static_cast<std::size_t>(m.width) > expert_wire::most_values || m.layers < 1) {
    return fail(errc::invalid_argument, "expert_client",
                "rows of " + std::to_string(m.width) + " values in " + std::to_string(m.layers) +
                    " layers; a message takes 1 to " + std::to_string(expert_wire::most_values / 2) +
                    ", and there must be a layer");
  }
  return std::unique_ptr<expert_client>{new expert_client{std::move(fabric), std::move(options)}};
}

CAUSEWAY_DECL result<bool> expert_client::wait_for_experts(std::size_t count, time_point deadline) {
  return fabric_->block([&] { return directory_.size() >= count; }, deadline);
}

CAUSEWAY_DECL stage::expert_directory expert_client::alive() {
  stage::expert_directory now{directory_.grid()};
  fabric_->locked([&] {
    directory_.expire(fabric_->now());
    now = directory_;
  });
  return now;
}

CAUSEWAY_DECL result<std::vector<std::uint8_t>> expert_client::ask(const expert_question& q, std::span<float> out) {
  CAUSEWAY_EXPECT(q.row.size() == q.expert.size() && out.size() == q.expert.size() * width());
  std::vector<std::uint8_t> answered(q.expert.size(), 0);
  time_point deadline;
  fabric_->locked([&] {
    deadline = fabric_->now() + options_.patience;
    send_all(q);
  });
  const auto all = [this] {
    return std::all_of(under_way_.begin(), under_way_.end(), [](const auto& p) { return p.second.over; });
  };
  const auto happened = fabric_->block(all, deadline);
  fabric_->locked([&] {
    for (const auto& [number, p] : under_way_) take(q, p, answered, out);
    under_way_.clear();
  });
  if (!happened) return happened.error();
  return answered;
}

CAUSEWAY_DECL expert_client::expert_client(std::shared_ptr<net::fabric> fabric, expert_client_options options)
    : fabric_{std::move(fabric)},
      options_{std::move(options)},
      run_{agreement(options_.mixture)},
      directory_{grid_of(options_.mixture)} {
  fabric_->attach(this);
  fabric_->locked([this] { on_wake(); });
}

CAUSEWAY_DECL std::vector<std::size_t> expert_client::by_expert(const expert_question& q) {
  std::vector<std::size_t> order(q.expert.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return q.expert[a] < q.expert[b]; });
  return order;
}

CAUSEWAY_DECL void expert_client::send_all(const expert_question& q) {
  const std::size_t most = expert_wire::most_values / width() / (q.gradients.empty() ? 1 : 2);
  const auto order = by_expert(q);
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (q.wanted.empty() || q.wanted[order[i]] != 0) items.push_back(order[i]);
    const bool ends = i + 1 == order.size() || q.expert[order[i]] != q.expert[order[i + 1]];
    if (!items.empty() && (ends || items.size() == most)) send(q, std::exchange(items, {}));
  }
}

CAUSEWAY_DECL void expert_client::send(const expert_question& q, std::vector<std::size_t> items) {
  const stage::expert_id expert = q.expert[items[0]];
  const auto holder = holders_.find(expert);
  if (holder == holders_.end()) return;  // it went a moment ago
  expert_wire::request r{++last_, q.gradients.empty() ? std::uint8_t{0} : std::uint8_t{1}, expert, {}};
  const auto add = [&](std::span<const float> from, std::size_t row) {
    const auto values = from.subspan(row * width(), width());
    r.values.insert(r.values.end(), values.begin(), values.end());
  };
  for (const std::size_t i : items) add(q.x, q.row[i]);
  for (const std::size_t i : items) {
    if (!q.gradients.empty()) add(q.gradients, i);
  }
  under_way_[r.number] = {holder->second, std::move(items), {}, false};
  fabric_->post(holder->second, expert_wire::encode(run_, r), true);
}

CAUSEWAY_DECL void expert_client::take(const expert_question& q, const piece& p, std::vector<std::uint8_t>& answered,
                                       std::span<float> out) {
  if (p.values.empty()) return forget(q.expert[p.items[0]]);
  for (std::size_t i = 0; i < p.items.size(); ++i) {
    answered[p.items[i]] = 1;
    std::copy_n(p.values.begin() + static_cast<std::ptrdiff_t>(i * width()), width(),
                out.begin() + static_cast<std::ptrdiff_t>(p.items[i] * width()));
  }
}

CAUSEWAY_DECL void expert_client::forget(stage::expert_id e) {
  directory_.remove(e);
  holders_.erase(e);
}

CAUSEWAY_INLINE void expert_client::on_down(net::peer_index link, const error&) {
  for (auto& [number, p] : under_way_) p.over = p.over || p.link == link;
  std::vector<stage::expert_id> gone;
  for (const auto& [expert, holder] : holders_) {
    if (holder == link) gone.push_back(expert);
  }
  for (const stage::expert_id e : gone) forget(e);
}

CAUSEWAY_INLINE void expert_client::on_control(net::peer_index link, std::span<const std::byte> bytes) {
  auto m = expert_wire::decode(run_, bytes);
  if (!m) return fabric_->close(link, m.error().message);
  if (const auto* const a = std::get_if<expert_wire::announcement>(&*m)) return learn(link, *a);
  if (auto* const a = std::get_if<expert_wire::answer>(&*m)) return note(link, std::move(*a));
}

CAUSEWAY_INLINE void expert_client::on_wake() {
  for (const std::string& a : options_.dial) fabric_->dial(a);
  fabric_->wake_at(fabric_->now() + options_.redial);
}

CAUSEWAY_DECL void expert_client::learn(net::peer_index link, const expert_wire::announcement& a) {
  for (const stage::expert_id e : a.experts) {
    if (e >= directory_.grid().places()) return fabric_->close(link, "experts outside of the grid");
  }
  for (const stage::expert_id e : a.experts) {
    directory_.announce(e, fabric_->now() + std::chrono::milliseconds{a.milliseconds});
    holders_[e] = link;
  }
}

CAUSEWAY_DECL void expert_client::note(net::peer_index link, expert_wire::answer a) {
  const auto found = under_way_.find(a.number);
  if (found == under_way_.end() || found->second.link != link || found->second.over) return;
  piece& p = found->second;
  p.over = true;
  if (a.values.empty()) return;
  if (a.values.size() != p.items.size() * width()) return fabric_->close(link, "an answer of another length");
  p.values = std::move(a.values);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_CLIENT_IPP
