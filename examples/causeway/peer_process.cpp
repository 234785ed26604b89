// SPDX-License-Identifier: Apache-2.0
#include "peer_process.hpp"

#include <causeway/train/swarm_group.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "addresses.hpp"
#include "announcing_fabric.hpp"
#include "elastic_run.hpp"
#include "hearing_fabric.hpp"
#include "noted_round.hpp"
#include "run_model.hpp"
#include "run_notice.hpp"
#include "text_file.hpp"
#include "watched_fabric.hpp"
#include "welcome.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
namespace net = causeway::net;
using causeway::errc;
using causeway::fail;

// Where this peer listens: where it was told, else where it did before, so that the others find it again.
causeway::result<net::listener> listen(const settings& s, const std::optional<std::string>& before,
                                       const causeway::log_sink& log) {
  net::endpoint wanted = listen_near(s.net.join);
  if (!s.net.listen.empty()) {
    CAUSEWAY_ASSIGN(wanted, net::parse_endpoint(s.net.listen));
  }
  const auto where = net::parse_endpoint(before.value_or(""));
  if (where && wanted.port == 0) {
    auto again = net::open_listener({wanted.host, where->port}, log);
    if (again) return again;
  }
  return net::open_listener(wanted, log);
}

// Everybody that may be in the run. Empty: this peer founds it.
causeway::result<std::vector<std::string>> whom_to_dial(const settings& s, const std::string& folder,
                                                        const peer_folder& mine, bool may_found) {
  std::vector<std::string> addresses;
  if (!s.net.join.empty()) addresses.push_back(s.net.join);
  bool anybody_known = false;
  for (const sibling& other : peers_on_disk(folder)) {
    anybody_known = anybody_known || other.known;
    if (other.index != mine.index() && !other.address.empty()) addresses.push_back(other.address);
  }
  if (may_found && !anybody_known && s.net.join.empty()) {
    if (!fs::exists(mine.path() + "/rounds")) return std::vector<std::string>{};
    return fail(errc::corrupt, mine.path(),
                "holds rounds of this run but no record of who is in it; join the others with causeway join, or start over "
                "with --run.fresh true");
  }
  return addresses;
}

net::fabric_options fabric_options_of(const settings& s, std::uint64_t run_id, net::peer_id id,
                                      const std::string& announced, causeway::log_sink log) {
  net::fabric_options options;
  options.announce = announced;
  options.run_id = run_id;
  options.id = id;
  options.streams_per_link = s.net.streams;
  options.transport.shared_memory = s.net.shared_memory;
  options.transport.log = std::move(log);
  return options;
}

}  // namespace

peer_process::peer_process(session_input in, peer_folder mine, std::shared_ptr<net::fabric> door,
                           std::vector<swarm_assignment> assignments, stop_watch& watch)
    : in_{std::move(in)},
      mine_{std::move(mine)},
      door_{std::move(door)},
      assignments_{std::move(assignments)},
      watch_{watch},
      report_{in_, mine_.path(), mine_.index()} {}

peer_process::~peer_process() {
  watch_.when_patience_ends({});
  watch_.when_asked({});
}

causeway::result<int> peer_process::run(bool may_found) {
  CAUSEWAY_TRY(report_.open_log());
  for (;;) {
    CAUSEWAY_TRY(is_swarm(in_.s) ? open_swarm_fabrics() : open_fabric());
    CAUSEWAY_TRY(open_group(may_found));
    auto summary = run_model({in_, surroundings(), &place_});
    if (summary) return report_.conclude(*summary);
    const auto next = place_.swarm ? place_.swarm->peer()->asked_to_move() : std::nullopt;
    if (!next || in_.stopping()) return summary.error();
    CAUSEWAY_TRY(move_to(*next));
  }
}

causeway::environment peer_process::surroundings() const {
  causeway::environment env;
  env.log = report_.log();
  env.group = place_.group;
  if (place_.pipelines) env.group = place_.pipelines;
  if (place_.swarm) {
    env.group = std::make_shared<causeway::swarm_group>(place_.group, place_.swarm->peer(), place_.storage, place_.folder);
  }
  return env;
}

net::peer_id peer_process::identity(const std::string& folder, std::uint64_t run_id) const {
  return causeway::member_identity(place_.storage, folder, run_id, fresh_identity(mine_.index()));
}

std::shared_ptr<net::fabric> peer_process::watched(std::shared_ptr<net::fabric> over, bool second) const {
  return std::make_shared<watched_fabric>(std::move(over), in_.links, second);
}

std::shared_ptr<net::fabric> peer_process::with_points(std::shared_ptr<net::fabric> tcp) {
  if (!points_.is("mid_exchange") && !points_.is("mid_step")) return tcp;
  return std::make_shared<passing_fabric>(std::move(tcp), points_);
}

// Who reads how to join may do so at once.
std::shared_ptr<net::fabric> peer_process::announcing(std::shared_ptr<net::fabric> tcp) const {
  if (in_.s.quiet) return tcp;
  return std::make_shared<announcing_fabric>(std::move(tcp), [this] { announce(); });
}

// Where tokens come from other peers, each that is met may have some.
std::shared_ptr<net::fabric> peer_process::hearing(std::shared_ptr<net::fabric> tcp) const {
  if (!in_.data.fetcher) return tcp;
  return std::make_shared<hearing_fabric>(
      std::move(tcp), [fetcher = in_.data.fetcher](const std::string& address) { fetcher->hear_of(address); });
}

// The network on which others find the run.
causeway::result<std::shared_ptr<net::asio_fabric>> peer_process::open_public(net::listener at, net::peer_id id) {
  reachable_ = reachable_at(at.address(), in_.s.net.announce);
  const std::string announced = announcement(at.address(), in_.s.net.announce);
  net::fabric_options options = fabric_options_of(in_.s, in_.run_id, id, announced, report_.log());
  CAUSEWAY_ASSIGN(options.handshake.pieces, tell_newcomers(in_.s, in_.folder, in_.data));
  return net::open_fabric(std::move(at), std::move(options));
}

causeway::result<void> peer_process::open_fabric() {
  CAUSEWAY_ASSIGN(net::listener at, listen(in_.s, mine_.address(), report_.log()));
  const auto id = identity(mine_.path(), in_.run_id);
  CAUSEWAY_ASSIGN(const auto tcp, open_public(std::move(at), id));
  watch_.when_patience_ends(tcp->interrupter(), std::chrono::seconds{in_.s.fault.notice});
  place_.fabric = hearing(watched(with_points(announcing(tcp)), false));
  report_.opened({.id = id, .address = tcp->address()});
  return mine_.set_address(tcp->address());
}

// One to the peers of its stage, at any port, and one to all, at the address by which others join.
causeway::result<void> peer_process::open_swarm_fabrics() {
  CAUSEWAY_ASSIGN(chosen_, choose_stage(in_.s, in_.folder, mine_, assignments_));
  CAUSEWAY_TRY(keep_stage(mine_, chosen_.stage));
  const std::string folder = stage_folder(mine_.path(), chosen_.stage);
  const std::uint64_t run = stage_run_id(in_.run_id, chosen_.stage);
  const auto id = identity(folder, run);
  CAUSEWAY_ASSIGN(net::listener at, listen(in_.s, mine_.address(), report_.log()));
  settings near = in_.s;
  if (!near.net.listen.empty()) near.net.listen = net::endpoint{at.address().host, 0}.text();
  CAUSEWAY_ASSIGN(net::listener inner, listen(near, read_word(folder + "/address"), report_.log()));
  const auto announced = net::parse_endpoint(in_.s.net.announce);  // a port that is forwarded is that of the other network
  const std::string host = announcement(inner.address(), announced ? announced->host : in_.s.net.announce);
  CAUSEWAY_ASSIGN(const auto mates,
                  net::open_fabric(std::move(inner), fabric_options_of(in_.s, run, id, host, report_.log())));
  CAUSEWAY_ASSIGN(const auto all, open_public(std::move(at), id));
  watch_.when_patience_ends([one = mates->interrupter(), other = all->interrupter()] { one(), other(); });
  place_.fabric = watched(with_points(mates), false);
  front_ = std::make_shared<swarm_front>(hearing(watched(announcing(all), true)),
                                         swarm_assignment{chosen_.stage, 0, mates->address()}, stages_of(in_.s), talk_);
  place_.across = front_;
  CAUSEWAY_TRY(write_text(folder + "/address", mates->address() + "\n"));
  report_.opened({.id = id, .address = all->address(), .stage = chosen_.stage});
  return mine_.set_address(all->address());
}

// Others asked it to: with its stage's membership it is through.
causeway::result<void> peer_process::move_to(std::uint32_t stage) {
  report_.log()(causeway::severity::info, "moving from stage " + std::to_string(chosen_.stage) + " to stage " +
                                              std::to_string(stage) + ", which needs it more");
  assignments_ = talk_.assignments();
  watch_.when_asked({});
  front_.reset();
  const auto storage = place_.storage;
  place_ = elastic_place{.storage = storage};
  in_.s.parallel.stage = -1;
  return keep_stage(mine_, stage);
}

causeway::result<void> peer_process::open_group(bool may_found) {
  CAUSEWAY_ASSIGN(const causeway::member_options options, membership(may_found));
  CAUSEWAY_ASSIGN(place_.group, causeway::member::make(place_.fabric, place_.storage, options, report_.log()));
  if (is_pipeline(in_.s)) place_.pipelines = std::make_shared<causeway::pipeline_group>(place_.group);
  place_.folder = options.folder;
  place_.events = &report_;
  report_.tells([this](const told_figures& f) { door().locked([&] { talk_.tell(door(), f.encode()); }); });
  place_.linger = [this] {
    const std::chrono::seconds patience{std::max(1U, in_.s.net.patience)};
    return talk_.linger(
        door(), patience, [this] { return place_.bytes_sent(); }, report_.log());
  };
  watch_.when_asked([group = place_.group, swarm = place_.swarm] {
    return group->describe() + (swarm ? swarm->peer()->describe() : std::string{});
  });
  return {};
}

// In a swarm it is that of a stage.
causeway::result<causeway::member_options> peer_process::membership(bool may_found) {
  causeway::member_options o = member_options_of(in_.s, in_.run_id);
  o.folder = mine_.path();
  o.members_wait = in_.s.net.join.empty();  // who joined is alone there; a launcher starts the others again
  o.secret = fresh_secret();
  o.passing = place_.passing = [this](std::string_view point) {
    if (point != "joining") door_.reset();
    points_.pass(point);
  };
  place_.computed = [this](std::int64_t, double part) { points_.pause(part); };
  place_.spoils = [this](std::uint64_t round) { return points_.spoils(round); };
  talk_ = peer_talk{{in_.data.hash, to_toml(in_.s, true)}};
  std::string journal = journal_name(in_.s.run.branch);
  if (place_.across) {
    join_swarm(o);
    journal = stage_journal(chosen_.stage);
  } else {
    CAUSEWAY_ASSIGN(o.dial, whom_to_dial(in_.s, in_.folder, mine_, may_found));
    o.other_messages = [this](net::peer_index link, std::span<const std::byte> message) {
      talk_.hear(*place_.fabric, link, message);
    };
  }
  if (is_pipeline(in_.s)) {  // who is through does not evaluate any more: nobody waits for that
    o.called_away = [this] { return talk_.somebody_is_through(); };
  }
  if (in_.s.run.journal) {
    CAUSEWAY_ASSIGN(auto file, journal_file::open(mine_.path() + "/" + journal));
    journal_.emplace(std::move(file));
    o.journal = [this](const causeway::membership::event& e) { journal_->write(e); };
  }
  return o;
}

void peer_process::join_swarm(causeway::member_options& o) {
  o.protocol.run = stage_run_id(in_.run_id, chosen_.stage);
  o.protocol.expected = founders_of(in_.s, chosen_.stage);
  o.folder = stage_folder(mine_.path(), chosen_.stage);
  o.dial = chosen_.mates;
  causeway::parallel::swarm_options swarm = swarm_options_of(in_.s, in_.run_id, chosen_.stage);
  if (!in_.s.net.join.empty()) swarm.dial.push_back(in_.s.net.join);
  for (const sibling& other : peers_on_disk(in_.folder)) {
    if (other.index != mine_.index() && !other.address.empty()) swarm.dial.push_back(other.address);
  }
  place_.swarm = std::make_shared<noted_round>(make_swarm_peer(in_.s, front_, std::move(swarm), report_.log()),
                                               [front = front_.get()](double seconds) { front->measured(seconds); });
  o.called_away = [swarm = place_.swarm] { return swarm->peer()->called_away(); };
}

// The network on which others join.
net::fabric& peer_process::door() const { return place_.across ? *place_.across : *place_.fabric; }

void peer_process::announce() const {
  const bool begins = place_.group->round() == 0 && in_.s.net.peers > 1 && in_.s.net.join.empty();
  const std::string waits = begins ? "; the first round waits until " + std::to_string(in_.s.net.peers) + " are there" : "";
  std::printf("this is peer %llu, in %s%s; another one joins with\n\n%s\n",
              static_cast<unsigned long long>(place_.fabric->id()), mine_.path().c_str(), waits.c_str(),
              join_command(in_.s, reachable_).c_str());
  std::fflush(stdout);
}

}  // namespace app
