// SPDX-License-Identifier: Apache-2.0
#include "run_folder.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "corpus.hpp"
#include "option.hpp"
#include "peer_folder.hpp"
#include "text_file.hpp"

namespace app {
namespace {

namespace fs = std::filesystem;
using causeway::errc;
using causeway::fail;

constexpr std::string_view mark =
    "# A run of the program causeway, which deletes this folder when it is told --run.fresh true.\n";

bool is_marked(const std::string& folder) {
  const auto text = read_text(settings_file(folder));
  return text && text->starts_with(mark);
}

// Whether a peer of the run has trained here, or is about to: then its settings are what they are.
bool has_trained(const std::string& folder) {
  std::error_code ignored;
  for (const sibling& peer : peers_on_disk(folder)) {
    if (peer.running) return true;
    for (const auto& entry : fs::directory_iterator{folder + "/peer-" + std::to_string(peer.index), ignored}) {
      const std::string name = entry.path().filename().string();
      if (name == "record" || name.starts_with("step-") || name.starts_with("stage-")) return true;
    }
  }
  return false;
}

causeway::result<void> nobody_uses(const std::string& folder) {
  for (const sibling& peer : peers_on_disk(folder)) {
    if (!peer.running) continue;
    const std::string who = peer.process > 0 ? " (process " + std::to_string(peer.process) + ")" : "";
    return fail(errc::invalid_argument, folder + "/peer-" + std::to_string(peer.index),
                "runs" + who + "; stop it before you start over with --run.fresh, or give the run another --run.name");
  }
  return {};
}

// The mark goes last: what is left of a deletion that was interrupted can be deleted, too.
void delete_all(const std::string& folder, std::error_code& failure) {
  const std::vector<fs::directory_entry> inside{fs::directory_iterator{folder, failure}, fs::directory_iterator{}};
  for (const auto& entry : inside) {
    if (!failure && entry.path().filename() != "settings.toml") fs::remove_all(entry.path(), failure);
  }
  if (!failure) fs::remove_all(folder, failure);
}

causeway::result<void> start_over(const std::string& folder) {
  std::error_code failure;
  if (!fs::exists(folder, failure) || fs::is_empty(folder, failure)) return {};
  if (!is_marked(folder)) {
    return fail(
        errc::invalid_argument, folder,
        "has no settings.toml that marks it as a run, so --run.fresh does not delete it; delete it by hand if it is "
        "one, or give the run another --run.name");
  }
  CAUSEWAY_TRY(nobody_uses(folder));
  delete_all(folder, failure);
  if (failure) return fail(errc::io_failed, folder, "cannot be deleted: " + failure.message());
  return {};
}

// The settings that are kept in `folder`, over those of `s`.
causeway::result<settings> settings_before(const settings& s, const std::string& folder, const std::string& text) {
  settings before = s;
  origins ignored;
  CAUSEWAY_TRY(apply_toml(text, settings_file(folder), before, ignored));
  return before;
}

causeway::error differs(const changed_setting& s, const std::string& folder) {
  return fail(errc::wrong_model, s.name,
              s.values + " in the run in " + folder +
                  "; leave it as it was, give the run another name with --run.name, or start over with --run.fresh true");
}

}  // namespace

std::string settings_file(const std::string& folder) { return folder + "/settings.toml"; }

std::optional<std::string> kept_settings(const std::string& folder) {
  auto text = read_text(settings_file(folder));
  if (!text) return std::nullopt;
  return std::move(*text);
}

causeway::result<void> keep_settings(settings& s, const std::string& folder) {
  const std::string text = std::string{mark} + to_toml(s, true);
  if (kept_settings(folder) == text) return {};
  return write_text(settings_file(folder), text);
}

causeway::result<void> make_run_folder(const settings& s) {
  CAUSEWAY_TRY(check_run_name(s));
  const std::string folder = run_folder(s);
  if (s.run.fresh && s.net.join.empty()) CAUSEWAY_TRY(start_over(folder));
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (!failure) return {};
  return fail(errc::io_failed, folder, "cannot be made: " + failure.message() + "; choose another run.directory");
}

causeway::result<void> agree_on_settings(settings& s, const std::string& folder) {
  const auto text = kept_settings(folder);
  if (!text || !has_trained(folder)) return keep_settings(s, folder);
  CAUSEWAY_ASSIGN(const settings before, settings_before(s, folder, *text));
  if (s.run.branch.empty()) s.run.branch = before.run.branch;
  if (const auto changed = first_change(s, before)) return differs(*changed, folder);
  return {};
}

causeway::result<void> agree_on_store(settings& s, const std::string& folder) {
  const std::string path = folder + "/parallel.store";
  const auto kept = read_text(path);
  if (s.parallel.store.empty()) {
    if (kept) s.parallel.store = *kept;
    return {};
  }
  std::error_code failure;
  const std::string store = fs::absolute(s.parallel.store, failure).lexically_normal().string();
  if (failure || (kept && *kept == store)) return {};
  return write_text(path, store);
}

causeway::result<void> agree_on_model(settings& s, const std::string& folder) {
  const auto text = kept_settings(folder);
  if (text && has_trained(folder)) {
    CAUSEWAY_ASSIGN(settings before, settings_before(s, folder, *text));
    const auto then = table(before);
    const auto now = table(s);
    for (std::size_t i = 0; i < now.size(); ++i) {
      const std::string& name = now[i].name;
      const bool lasts = name.starts_with("model.") || name == "experts.sides" || name.starts_with("tune.") ||
                         name == "comm.policy" || name == "parallel.policy" || name == "fault.policy" ||
                         (name.starts_with("data.") && !now[i].local);
      if (lasts && now[i].get() != then[i].get()) return differs(change_of(now[i], then[i]), folder);
    }
  }
  return keep_settings(s, folder);
}

}  // namespace app
