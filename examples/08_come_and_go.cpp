// SPDX-License-Identifier: Apache-2.0
// ctest:
// Peers that come and go, over TCP: three train, one leaves in the middle, a fourth comes and is given the state while the
// others train on. Here they are threads; on machines each would be a program, and dial the address of any that is in.
#include <causeway/elastic.hpp>
#include <causeway/tcp.hpp>
#include <causeway/train.hpp>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "several_peers.hpp"

using namespace causeway;

constexpr std::uint64_t run_id = 7, per_step = 4, steps_per_round = 10, rounds = 80, founders = 3;

struct peer {
  std::shared_ptr<net::fabric> fabric;
  std::shared_ptr<member> group;
};

result<peer> open_peer(net::peer_id id, std::vector<std::string> dial) {
  CAUSEWAY_ASSIGN(auto fabric, net::open_fabric(net::endpoint{"127.0.0.1", 0}, {.run_id = run_id, .id = id}));
  member_options o;
  o.protocol.run = run_id;
  o.protocol.expected = founders;
  o.protocol.quota = per_step * steps_per_round;
  o.protocol.budget = founders * per_step * steps_per_round * rounds;
  o.dial = std::move(dial);
  o.secret = std::random_device{}();
  CAUSEWAY_ASSIGN(auto group, member::make(fabric, io::any_storage{io::memory_storage{}}, o));
  return peer{fabric, group};
}

std::promise<void> time_to_come;  // for the one that comes late
std::once_flag asked;

/// Trains until the run's samples are used up, or for `most` steps; gives the hash of the parameters that all hold then.
result<std::uint64_t> train(const peer& me, std::uint64_t most = UINT64_MAX) {
  data::byte_tokenizer bytes;
  CAUSEWAY_ASSIGN(auto batches,
                  data::batcher::make(data::tokenize(bytes, counted_text()), {.context_length = 16}, per_step));
  const nn::gpt_options small{.layers = 1, .heads = 2, .width = 16, .context = 16, .vocabulary = 256};
  CAUSEWAY_ASSIGN(auto model, nn::gpt::create(small, kernels::cpu_backend{1}));
  auto trainer = make_trainer(std::move(model), environment{.group = me.group}, {.learning_rate = optim::constant{1e-2F}},
                              comm::periodic<>{{.local_steps = steps_per_round}}, fault::quorum{});
  CAUSEWAY_TRY(trainer.start());
  double loss = 0;
  std::uint64_t steps = 0;
  for (; steps < most; ++steps) {
    CAUSEWAY_ASSIGN(const auto samples, trainer.draw(per_step));
    if (samples.empty()) break;
    CAUSEWAY_ASSIGN(const auto step, trainer.step(batches.of(samples)));
    loss = step.loss;
    if (trainer.context().round() >= 4) std::call_once(asked, [] { time_to_come.set_value(); });
  }
  std::printf("peer %llu: %llu steps, round %llu, loss %.3f\n", static_cast<unsigned long long>(me.fabric->id()),
              static_cast<unsigned long long>(steps), static_cast<unsigned long long>(trainer.context().round()), loss);
  if (most != UINT64_MAX) return me.group->leave(), 0;  // says goodbye; were it killed, the others would find out
  return me.group->state_hash();
}

result<std::uint64_t> comes_late(const std::string& there) {
  time_to_come.get_future().wait();
  CAUSEWAY_ASSIGN(const peer me, open_peer(4, {there}));
  return train(me);
}

std::uint64_t or_exit(const result<std::uint64_t>& hash) {
  if (hash) return *hash;
  std::puts(hash.error().text().c_str());
  std::_Exit(1);  // the other threads would wait for this one
}

result<bool> run() {
  CAUSEWAY_ASSIGN(const peer first, open_peer(1, {}));
  CAUSEWAY_ASSIGN(const peer second, open_peer(2, {first.fabric->address()}));
  CAUSEWAY_ASSIGN(const peer leaves, open_peer(3, {first.fabric->address()}));
  std::uint64_t hashes[3] = {};
  std::thread threads[] = {
      std::thread{[&] { hashes[0] = or_exit(train(first)); }}, std::thread{[&] { hashes[1] = or_exit(train(second)); }},
      std::thread{[&] { or_exit(train(leaves, 25)); }},
      std::thread{[&] { hashes[2] = or_exit(comes_late(second.fabric->address())); }}};  // any peer's address does
  for (auto& t : threads) t.join();
  return hashes[0] == hashes[1] && hashes[0] == hashes[2];
}

int main() { return status_of(run()); }
