// SPDX-License-Identifier: Apache-2.0
#include "parallel/elastic/elastic_world.hpp"

#include <causeway/train/member.hpp>

#include <algorithm>
#include <cmath>

#include "support/counted_fabric.hpp"

namespace support {
namespace {

causeway::member_options member_options_of(const elastic_world_options& world, std::uint32_t host, bool founds,
                                           const std::function<std::string(std::uint32_t)>& address) {
  causeway::member_options o;
  o.protocol.run = 4711;
  o.protocol.expected = world.hosts - static_cast<std::uint32_t>(world.late.size());
  for (std::uint32_t h = 0; h < world.hosts; ++h) {
    if (h != host && !founds) o.dial.push_back(address(h));
  }
  o.enters_afresh = true;
  o.secret = causeway::mix(world.seed, host);
  return o;
}

}  // namespace

any_elastic_world::any_elastic_world(elastic_world_options options, peer_maker make)
    : options_{std::move(options)}, make_{std::move(make)}, world_{world_options()} {
  for (std::uint32_t h = 0; h < options_.hosts; ++h) {
    const auto host = world_.add_host({});
    disks_.emplace_back(causeway::sim::disk_options{.seed = causeway::mix(options_.seed, host)});
    world_.set_storage(host, causeway::io::any_storage{causeway::io::basic_file_storage{disks_.back()}});
  }
  if (options_.trace) {
    world_.set_log([this](causeway::time_point t, std::uint32_t host, causeway::severity, std::string_view text) {
      options_.trace(std::to_string(causeway::seconds(t.since_start)) + " host " + std::to_string(host) + ": " +
                     std::string{text});
    });
  }
  results_.resize(options_.hosts);
}

std::uint32_t any_elastic_world::finished() const {
  return static_cast<std::uint32_t>(std::count_if(results_.begin(), results_.end(), [](auto& r) { return r.finished; }));
}

void any_elastic_world::boot() {
  for (std::uint32_t h = 0; h < options_.hosts; ++h) {
    if (std::find(options_.late.begin(), options_.late.end(), h) == options_.late.end()) boot(h);
  }
}

void any_elastic_world::boot(std::uint32_t host) {
  world_.boot(host, [this](causeway::sim::process& p) { live(p); });
}

void any_elastic_world::run(causeway::duration end) { world_.run_until(causeway::time_point{end}); }

const causeway::stage::assignment* any_elastic_world::last_assignment(std::uint32_t host) const {
  const auto& r = results_[host];
  return r.layouts.empty() ? nullptr : r.layouts.rbegin()->second.find(r.id);
}

trained_model any_elastic_world::unsplit() const {
  const pipeline_case c{.ranks = 1,
                        .micro_batches = options_.micro_batches,
                        .sequences = options_.micro_batches,
                        .steps = options_.steps,
                        .clip_norm = options_.clip_norm};
  return train_whole(small_gpt(options_.layers), c, [] { return causeway::comm::every_step<>{}; });
}

double any_elastic_world::distance(const trained_model& whole) const {
  double worst = 0;
  for (const auto& [name, want] : whole.parameters) {
    bool seen = false;
    for (const auto& r : results_) {
      const auto found = r.parameters.find(name);
      if (!r.finished || found == r.parameters.end()) continue;
      seen = true;
      for (std::size_t i = 0; i < want.size(); ++i) {
        worst = std::max(worst, std::abs(double(found->second.at(i)) - double(want[i])));
      }
    }
    if (!seen) return NAN;
  }
  for (const auto& r : results_) {
    for (const auto& [step, loss] : r.losses) worst = std::max(worst, std::abs(loss - whole.losses.at(step - 1)));
  }
  return worst;
}

causeway::sim::world_options any_elastic_world::world_options() const {
  causeway::sim::world_options o;
  o.seed = options_.seed;
  o.link = options_.link;
  return o;
}

std::shared_ptr<causeway::net::fabric> any_elastic_world::fabric(causeway::sim::process& p, std::uint64_t id) {
  return std::make_shared<counted_fabric>(p.make_fabric(id), [this, &p](fabric_call call) {
    elastic_result& r = results_[p.host()];
    // What is written in a storage that all share is not counted: then each call is a moment of its own.
    const bool shares = options_.store_every > 0 && !options_.own_storages;
    r.distinct.note(call, world_.running() == &p, world_.event_count(), shares ? r.calls : disks_[p.host()].operations());
    if (r.calls++ != options_.dies_at || p.host() != options_.victim) return;
    world_.kill(p.host());
    if (options_.back_after > 0s) world_.after(options_.back_after, [this, h = p.host()] { world_.restart(h); });
    if (world_.running() == &p) p.sleep(1h);
  });
}

causeway::parallel::elastic_pipeline_options any_elastic_world::pipeline_options(causeway::sim::process& p) {
  causeway::parallel::elastic_pipeline_options o{.micro_batches = options_.micro_batches};
  if (options_.store_every > 0) o.storage = options_.own_storages ? p.storage() : causeway::io::any_storage{shared_};
  o.store_every = options_.store_every;
  return o;
}

void any_elastic_world::live(causeway::sim::process& p) {
  using namespace causeway;
  const std::uint32_t host = p.host();
  elastic_result& me = results_[host];
  me.finished = false;
  auto disk = p.storage();
  const bool founds = host == 0 && !disk.read("member/record");
  const auto fresh = mix(options_.seed, host + 1, p.incarnation()) | 1U;
  const auto id = member_identity(p.storage(), "member", 4711, fresh);
  me.id = id;
  const auto address = [this](std::uint32_t h) { return world_.address(h); };
  auto mo = member_options_of(options_, host, founds, address);
  if (options_.through_is_told)
    mo.called_away = [this, &p, born = p.now()] { return finished() > 0 && p.now() - born > 1s; };
  auto below = member::make(fabric(p, id), p.storage(), std::move(mo), p.log());
  if (!below) {
    me.error = below.error().text();
    return;
  }
  const auto group = options_.plain_member ? nullptr : std::make_shared<pipeline_group>(*below);
  environment env;
  env.group = *below;
  env.clock = p.clock();
  env.log = p.log();
  const auto peer = make_(options_, group, std::move(env), pipeline_options(p));
  const auto outcome = train(p, *peer, me);
  if (!outcome) me.error = outcome.error().text();
  if (!outcome) return;
  if (me.left) {
    group->leave();
    p.sleep(1s);  // what it says goes out
    world_.kill(host);
    p.sleep(1h);
  }
  me.finished = true;
  if (finished() >= std::min(wanted, options_.hosts)) world_.end_run();
  p.sleep(10h);  // stays to help those who are behind
}

causeway::result<void> any_elastic_world::train(causeway::sim::process& p, elastic_peer& peer, elastic_result& me) {
  CAUSEWAY_TRY(peer.start());
  while (peer.steps() < options_.steps) {
    const std::uint64_t step = peer.steps();
    if (options_.before_step) options_.before_step(p.host(), step);
    if (options_.spoils) options_.spoils(p.host(), step, peer.parameters());
    CAUSEWAY_TRY(evaluate(peer, me));
    if (peer.steps() != step) continue;
    const auto told = options_.told_to_go.find(p.host());
    me.left = told != options_.told_to_go.end() && step >= told->second;
    if (me.left) peer.leave_next();
    const token_batch b{0, step, options_.micro_batches};
    CAUSEWAY_ASSIGN(const auto report, peer.step(options_.batch_of ? options_.batch_of(step) : b.view()));
    if (report.by_others || report.step != step + 1) {  // or the run went back
      me.went_back += report.step <= step ? 1 : 0;
      continue;
    }
    me.losses[report.step] = report.loss;
    me.layouts[report.step] = peer.layout();
    me.ends[report.step] = p.now();
    if (me.left) break;
  }
  CAUSEWAY_TRY(evaluate(peer, me));
  peer.count(me);
  if (peer.layout().find(me.id) != nullptr) peer.collect(me.parameters);
  return {};
}

causeway::result<void> any_elastic_world::evaluate(elastic_peer& peer, elastic_result& me) {
  const token_batch held_out{0, 1000, options_.micro_batches};
  for (std::uint64_t i = 0; i < options_.evaluations; ++i) {
    const auto loss = peer.evaluate(held_out.view());
    if (loss) me.evaluated[peer.steps()] = *loss;
    if (!loss && loss.error().code != causeway::errc::cancelled) return loss.error();
    me.missed += loss ? 0 : 1;
  }
  return {};
}

any_elastic_world::~any_elastic_world() = default;

std::string errors_of(any_elastic_world& w, std::uint32_t hosts) {
  std::string all;
  for (std::uint32_t h = 0; h < hosts; ++h) all += w.at(h).error;
  return all;
}

}  // namespace support
