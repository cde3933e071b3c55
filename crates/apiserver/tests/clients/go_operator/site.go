package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// Site is the kind that the operator is for.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SiteSpec   `json:"spec"`
	Status            SiteStatus `json:"status,omitempty"`
}

type SiteSpec struct {
	Text     string `json:"text"`
	Replicas int32  `json:"replicas"`
}

type SiteStatus struct {
	Ready      int32              `json:"ready"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

func addSites(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

func (s *SiteStatus) equal(other *SiteStatus) bool {
	return s.Ready == other.Ready && slices.Equal(s.Conditions, other.Conditions)
}

func (s *Site) DeepCopy() *Site {
	copied := *s
	s.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &copied
}

func (s *Site) DeepCopyObject() runtime.Object { return s.DeepCopy() }

func (l *SiteList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = make([]Site, 0, len(l.Items))
	for index := range l.Items {
		copied.Items = append(copied.Items, *l.Items[index].DeepCopy())
	}
	return &copied
}
