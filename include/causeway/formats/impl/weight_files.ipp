// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FORMATS_IMPL_WEIGHT_FILES_IPP
#define CAUSEWAY_FORMATS_IMPL_WEIGHT_FILES_IPP

#include <causeway/formats/weight_files.hpp>

#include <causeway/core/hash.hpp>

#include <set>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats { namespace detail {

/// The files that an index names, which lie beside it.
inline result<std::map<std::string, std::string>> read_index(const std::string& path, const std::string& text) {
  const auto bad = [&](const std::string& why) { return fail(errc::corrupt, path, why + "; get the file again"); };
  CAUSEWAY_ASSIGN(const json_value root, parse_json(text, path));
  const json_value* const map = root.find("weight_map");
  if (map == nullptr || !map->is_object() || map->items.empty()) return bad("has no weight_map");
  std::map<std::string, std::string> files;
  for (std::size_t i = 0; i < map->items.size(); ++i) {
    const std::string& file = map->items[i].text;
    if (file.empty() || file.front() == '.' || file.find_first_of(std::string{"/\\\0", 3}) != std::string::npos) {
      return bad("names the file '" + file + "' for " + map->names[i] + ", which is no file of its folder");
    }
    files.emplace(map->names[i], file);
  }
  return files;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::formats::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace formats {

CAUSEWAY_DECL std::string config_file(const std::string& folder) { return folder + "/config.json"; }

CAUSEWAY_DECL result<std::string> read_text_file(const std::string& path, const std::string& remedy) {
  io::posix_storage storage;
  const auto bytes = storage.read(path);
  if (!bytes) {
    if (bytes.error().code != errc::not_found) return bytes.error();
    return fail(errc::not_found, path, "is not there; " + remedy);
  }
  return std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

CAUSEWAY_DECL result<weight_files> weight_files::open(const std::string& folder) {
  weight_files opened;
  const auto whole = opened.add(folder + "/model.safetensors");
  if (whole) return opened;
  if (whole.error().code != errc::not_found) return whole.error();
  const std::string index = folder + "/model.safetensors.index.json";
  CAUSEWAY_ASSIGN(const std::string text,
                  read_text_file(index,
                                 "nor is model.safetensors. Weights in another format can be stored as safetensors "
                                 "by transformers: model.save_pretrained(folder)"));
  CAUSEWAY_ASSIGN(const auto listed, detail::read_index(index, text));
  std::set<std::string> files;
  for (const auto& [tensor, file] : listed) files.insert(file);
  for (const std::string& file : files) CAUSEWAY_TRY(opened.add(folder + "/" + file));
  for (const auto& [tensor, file] : listed) {
    const auto found = opened.places_.find(tensor);
    if (found != opened.places_.end() && opened.files_[found->second.file].path() == folder + "/" + file) continue;
    return fail(errc::corrupt, index, "says that " + tensor + " is in " + file + ", where it is not; get the files again");
  }
  return opened;
}

CAUSEWAY_DECL result<void> weight_files::add(const std::string& path) {
  CAUSEWAY_ASSIGN(auto file, safetensors_file::open(path));
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const auto [there, fresh] = places_.emplace(file.tensors()[i].name, place{files_.size(), i});
    if (fresh) continue;
    return fail(errc::corrupt, path,
                "has the tensor " + there->first + ", which is in " + files_[there->second.file].path() + " too");
  }
  files_.push_back(std::move(file));
  return {};
}

CAUSEWAY_DECL const tensor_entry* weight_files::find(std::string_view name) const noexcept {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &files_[found->second.file].tensors()[found->second.tensor];
}

CAUSEWAY_DECL std::span<const std::byte> weight_files::bytes(const tensor_entry& entry) const {
  return files_[places_.find(entry.name)->second.file].bytes(entry);
}

CAUSEWAY_DECL std::vector<std::string_view> weight_files::names() const {
  std::vector<std::string_view> all;
  for (const auto& [name, where] : places_) all.push_back(name);
  return all;
}

CAUSEWAY_DECL std::uint64_t weight_files::content_hash() const noexcept {
  hasher h;
  for (const safetensors_file& f : files_) h.add(f.content());
  return h.finish();
}

}}}  // namespace causeway::CAUSEWAY_ABI::formats

#endif  // CAUSEWAY_FORMATS_IMPL_WEIGHT_FILES_IPP
